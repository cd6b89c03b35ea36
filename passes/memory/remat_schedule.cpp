#include "passes/memory/remat_schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "passes/memory/aliasing.h"
#include "schema/graph/cost.h"
#include "schema/graph/model.h"
#include "schema/ops/collective/point_to_point.h"

namespace genesis::passes {
namespace {

constexpr double kMinWork = 1;  // no node counts as free
constexpr size_t kMaxMoveItems = 256;
// An operand that is at most 1/8 of the buffer is kept alive for longer instead of being recomputed.
constexpr int64_t kSmallOperand = 8;

size_t at(int32_t id) { return static_cast<size_t>(id); }

int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

void RematSchedule::Items::add(NodeId node, const std::vector<Id>& inputs, const std::vector<Id>& outputs,
                               bool again) {
  list_.push_back({node, static_cast<int32_t>(values_.size()), static_cast<int32_t>(inputs.size()),
                   static_cast<int32_t>(outputs.size()), again});
  values_.insert(values_.end(), inputs.begin(), inputs.end());
  values_.insert(values_.end(), outputs.begin(), outputs.end());
}

void RematSchedule::Items::insert(int place, const Items& items) {
  std::vector<Item> moved = items.list_;
  for (Item& item : moved) item.first += static_cast<int32_t>(values_.size());
  values_.insert(values_.end(), items.values_.begin(), items.values_.end());
  list_.insert(list_.begin() + place, moved.begin(), moved.end());
}

RematSchedule::RematSchedule(const Graph& graph, const std::vector<NodeId>& order, const Target& target)
    : nodes_(facts_of(graph, target)) {
  add_table_values();
  for (NodeId node : order) add_item(node);
  const auto pin = [&](ValueId id) { buffers_[at(buffer_of(id.index))].pinned = true; };
  for (const NamedValue& output : graph.outputs()) pin(output.value);
  for (const StateUpdate& update : graph.updates()) pin(update.value);
}

std::shared_ptr<const RematSchedule::Nodes> RematSchedule::facts_of(const Graph& graph,
                                                                    const Target& target) {
  auto facts = std::make_shared<Nodes>(Nodes{graph, target.alignment, {}, {}, {}, {}, {}});
  for (const StateUpdate& update : updates_through_views(graph))
    facts->updates.emplace(update.value, update.state);
  for (const Node& node : graph.nodes()) {
    const std::vector<TensorType> inputs = graph.input_types(node), outputs = graph.output_types(node);
    const bool view = node.op->view_offset && node.op->view_offset(node.attributes, inputs);
    const Cost cost = cost_of(*node.op, node.attributes, inputs, outputs);
    const KernelQuery query = target.query(*node.op, node.attributes, inputs, outputs);
    facts->is_view.push_back(view);
    facts->work.push_back(view ? 0 : kMinWork + cost.flops + target.flops_per_byte_again * cost.bytes);
    facts->scratch.push_back(
        view || !target.scratch_bytes ? 0 : align_up(target.scratch_bytes(query), target.alignment));
    facts->in_place.push_back(view ? std::vector<InPlace>{}
                                   : in_place_pairs(*node.op, node.attributes, inputs, outputs));
  }
  return facts;
}

// Values keep their numbers of the graph; inputs, states and constants get their buffers before any item needs them.
void RematSchedule::add_table_values() {
  for (size_t i = 0; i < graph().values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const bool table = graph().value(id).kind != ValueKind::kNode;
    const Id value = new_value(id, table ? new_buffer(0, true) : -1);
    GENESIS_ASSERT(value == id.index);
  }
}

void RematSchedule::add_item(NodeId id) {
  const Node& node = graph().node(id);
  std::vector<Id> inputs, outputs;
  for (ValueId input : node.inputs) inputs.push_back(input.index);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Id output = node.outputs[i].index;
    values_[at(output)].buffer = is_view(id) && i == 0 ? buffer_of(inputs[0]) : new_buffer(bytes_of(node, i));
    outputs.push_back(output);
  }
  items_.add(id, inputs, outputs);
}

// Returns 0 for a value that is written directly into the state it updates.
int64_t RematSchedule::bytes_of(const Node& node, size_t output) const {
  const ValueId id = node.outputs[output];
  const auto [first, last] = nodes_->updates.equal_range(id);
  if (first != last && node.op->info.collective) return 0;  // a parameter that is gathered at the end
  for (auto update = first; update != last; ++update) {
    for (const InPlace& pair : nodes_->in_place[at(graph().value(id).producer.index)]) {
      const ValueInfo& input = graph().value(node.inputs[at(pair.input)]);
      if (pair.output == static_cast<int>(output) && input.kind == ValueKind::kState &&
          input.index == update->second)
        return 0;
    }
  }
  return align_up(graph().type(id).bytes(), nodes_->alignment);
}

RematSchedule::Id RematSchedule::new_value(ValueId original, Id buffer) {
  values_.push_back({original, buffer});
  const Id id = static_cast<Id>(values_.size()) - 1;
  if (id == original.index) return id;
  Id last = original.index;
  while (values_[at(last)].next >= 0) last = values_[at(last)].next;
  return values_[at(last)].next = id;
}

RematSchedule::Id RematSchedule::new_buffer(int64_t bytes, bool table) {
  buffers_.push_back({.bytes = bytes, .table = table});
  return static_cast<Id>(buffers_.size()) - 1;
}

RematSchedule::Liveness RematSchedule::liveness() const {
  Liveness l;
  l.first.assign(buffers_.size(), -1);
  l.last.assign(buffers_.size(), -1);
  l.made_at.assign(values_.size(), -1);
  const int end = static_cast<int>(items_.size());
  for (int i = 0; i < end; ++i) {
    const Item& item = items_[at(i)];
    for (Id value : items_.inputs(item)) l.last[at(buffer_of(value))] = i;
    for (Id value : items_.outputs(item)) {
      const Id b = buffer_of(value);
      l.made_at[at(value)] = i;
      if (l.first[at(b)] < 0) l.first[at(b)] = i;
      l.last[at(b)] = std::max(l.last[at(b)], i);
    }
  }
  std::vector<int64_t> change(at(end) + 2, 0);
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].pinned) l.last[b] = end;
    if (buffers_[b].table || l.first[b] < 0) continue;
    change[at(l.first[b])] += buffers_[b].bytes;
    change[at(l.last[b]) + 1] -= buffers_[b].bytes;
  }
  int64_t live = 0;
  std::vector<int> taken_at(buffers_.size(), -1);
  for (int i = 0; i <= end; ++i) {
    live += change[at(i)];
    l.live.push_back(i == end ? live
                              : live + nodes_->scratch[at(items_[at(i)].node.index)] -
                                    reused_bytes(i, l, taken_at));
  }
  const auto most = std::ranges::max_element(l.live);
  l.peak = *most;
  l.at = static_cast<int>(most - l.live.begin());
  l.items_at_peak = static_cast<int>(std::ranges::count(l.live, l.peak));
  return l;
}

// Returns the bytes of inputs that die here and whose memory a result takes over.
int64_t RematSchedule::reused_bytes(int i, const Liveness& l, std::vector<int>& taken_at) const {
  const Item& item = items_[at(i)];
  const std::span<const Id> inputs = items_.inputs(item), outputs = items_.outputs(item);
  int64_t bytes = 0;
  for (const InPlace& pair : nodes_->in_place[at(item.node.index)]) {
    const Id from = buffer_of(inputs[at(pair.input)]), to = buffer_of(outputs[at(pair.output)]);
    const bool free = !buffer(from).table && l.last[at(from)] == i && buffer(from).bytes == buffer(to).bytes;
    if (!free || taken_at[at(from)] == i || taken_at[at(to)] == i) continue;
    taken_at[at(from)] = taken_at[at(to)] = i;
    bytes += buffer(to).bytes;
  }
  return bytes;
}

// Collects the nodes that must be repeated to have a buffer's values before an item.
class RematSchedule::MoveMaker {
 public:
  // `read` lists the buffer's values that are read from there on, in order.
  MoveMaker(const RematSchedule& schedule, const Liveness& liveness, Id buffer, int from,
            const std::vector<Id>& read)
      : s_(schedule), l_(liveness), read_(read), next_(static_cast<Id>(schedule.values_.size())) {
    move_.buffer = buffer;
    move_.from = from;
    move_.saved = s_.buffer(buffer).bytes;
  }

  // Returns nothing if the move would take too many nodes or save no bytes.
  std::optional<Move> make() {
    std::vector<Id> wanted;
    for (Id value : read_)
      if (was_made_before(value) && std::ranges::find(wanted, value) == wanted.end()) wanted.push_back(value);
    for (Id value : wanted) {
      const Id again = need(value);
      if (again < 0) return std::nullopt;
      move_.renamed.emplace_back(value, again);
    }
    if (move_.saved <= 0 || wanted.empty()) return std::nullopt;
    move_.work = std::max(move_.work, kMinWork);
    return std::move(move_);
  }

 private:
  // Views of the buffer that are computed later follow the values that they view.
  bool was_made_before(Id value) const { return item_of(value) < move_.from; }

  int item_of(Id value) const { return l_.made_at[at(value)]; }

  bool is_there(Id value) const {
    const Id b = s_.buffer_of(value);
    return b != move_.buffer && item_of(value) < move_.from && l_.first[at(b)] < move_.from &&
           l_.last[at(b)] >= move_.from;
  }

  // Returns the value to read instead before the item `from`; -1 if this takes too many nodes.
  Id need(Id value) {
    if (s_.buffer(s_.buffer_of(value)).table) return value;
    if (const auto made = made_.find(s_.original(value).index); made != made_.end()) return made->second;
    for (Id instance = s_.original(value).index; instance >= 0; instance = s_.values_[at(instance)].next)
      if (item_of(instance) >= 0 && is_there(instance)) return instance;
    if (keep_longer(value)) return value;
    return make_again(value);
  }

  bool keep_longer(Id value) {
    const Id b = s_.buffer_of(value);
    if (b == move_.buffer || item_of(value) < 0 || item_of(value) >= move_.from) return false;
    if (s_.buffer(b).bytes * kSmallOperand > s_.buffer(move_.buffer).bytes) return false;
    if (l_.last[at(b)] < l_.at) move_.saved -= s_.buffer(b).bytes;
    return true;
  }

  Id make_again(Id value) {
    if (move_.items.size() >= kMaxMoveItems) return -1;
    const NodeId id = s_.graph().value(s_.original(value)).producer;
    const Node& node = s_.graph().node(id);
    if (has_peer(*node.op)) return -1;  // a send or recv cannot be repeated
    std::vector<Id> inputs, outputs;
    for (Id input : s_.items_.inputs(s_.items_[at(item_of(value))])) {
      inputs.push_back(need(input));
      if (inputs.back() < 0) return -1;
    }
    Id result = -1;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Id output = next_++;
      move_.originals.push_back(node.outputs[i]);
      made_.emplace(node.outputs[i].index, output);
      outputs.push_back(output);
      if (node.outputs[i] == s_.original(value)) result = output;
    }
    move_.work += s_.nodes_->work[at(id.index)];
    move_.items.add(id, inputs, outputs, true);
    return result;
  }

  const RematSchedule& s_;
  const Liveness& l_;
  const std::vector<Id>& read_;
  Move move_;
  Id next_;
  std::map<int32_t, Id> made_;  // by value id of the graph
};

std::vector<RematSchedule::Move> RematSchedule::moves(const Liveness& l) const {
  // next: the first reader after the peak. Buffers that the item at the peak itself writes or reads are excluded.
  std::vector<int> next(buffers_.size(), -1);
  const int end = static_cast<int>(items_.size());
  std::vector<std::vector<Id>> read(buffers_.size());  // values read after the peak
  for (int i = std::min(l.at + 1, end); i < end; ++i)
    for (Id value : items_.inputs(items_[at(i)])) {
      if (next[at(buffer_of(value))] < 0) next[at(buffer_of(value))] = i;
      read[at(buffer_of(value))].push_back(value);
    }
  if (l.at < end) {
    for (Id value : items_.inputs(items_[at(l.at)])) next[at(buffer_of(value))] = -1;
    for (Id value : items_.outputs(items_[at(l.at)])) next[at(buffer_of(value))] = -1;
  }
  std::vector<Move> moves;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].table || buffers_[b].pinned || buffers_[b].bytes == 0) continue;
    if (next[b] < 0 || l.first[b] < 0 || l.first[b] >= l.at) continue;
    if (auto move = MoveMaker(*this, l, static_cast<Id>(b), next[b], read[b]).make())
      moves.push_back(std::move(*move));
  }
  std::ranges::stable_sort(moves, [](const Move& a, const Move& b) { return a.worth() > b.worth(); });
  return moves;
}

void RematSchedule::apply(const Move& move) {
  for (ValueId original : move.originals) new_value(original, -1);
  for (size_t i = at(move.from); i < items_.size(); ++i)
    for (Id& input : items_.inputs(items_[i]))
      for (const auto& [old, again] : move.renamed)
        if (input == old) {
          input = again;
          break;
        }
  for (const Item& item : move.items.list()) {
    const Node& node = graph().node(item.node);
    const std::span<const Id> outputs = move.items.outputs(item);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!(is_view(item.node) && i == 0))
        values_[at(outputs[i])].buffer =
            new_buffer(align_up(graph().type(node.outputs[i]).bytes(), nodes_->alignment));
  }
  items_.insert(move.from, move.items);
  renew_views(at(move.from));
}

// Gives views the buffers of the values that they view.
void RematSchedule::renew_views(size_t from) {
  for (size_t i = from; i < items_.size(); ++i)
    if (is_view(items_[i].node))
      values_[at(items_.outputs(items_[i])[0])].buffer = buffer_of(items_.inputs(items_[i])[0]);
}

void RematSchedule::drop(int index) {
  const Item item = items_[at(index)];
  GENESIS_ASSERT(item.again);
  // `before` computes the same results and is the last item before this one that does.
  const Item* before = nullptr;
  for (int i = index; i-- > 0 && !before;)
    if (items_[at(i)].node == item.node) before = &items_[at(i)];
  GENESIS_ASSERT(before);
  const std::span<const Id> dropped = std::as_const(items_).outputs(item), outputs = items_.outputs(*before);
  for (size_t i = at(index); i < items_.size(); ++i)
    for (Id& input : items_.inputs(items_[i]))
      for (size_t k = 0; k < outputs.size(); ++k)
        if (input == dropped[k]) input = outputs[k];
  for (Id output : dropped) {
    Id earlier = original(output).index;
    while (values_[at(earlier)].next != output) earlier = values_[at(earlier)].next;
    values_[at(earlier)].next = values_[at(output)].next;
  }
  items_.erase(index);
  renew_views(0);
}

}  // namespace genesis::passes
