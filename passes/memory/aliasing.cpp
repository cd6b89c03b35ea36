#include "passes/memory/aliasing.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "passes/memory/joined_exchanges.h"

namespace genesis::passes {
namespace {

class Assigner {
 public:
  Assigner(const Graph& graph, const std::vector<NodeId>& order, bool in_place)
      : graph_(graph),
        order_(order),
        in_place_(in_place),
        last_read_(graph.values().size(), -1),
        target_state_(graph.values().size(), -1) {
    aliasing_.locations.resize(graph.values().size());
    for (const StateUpdate& update : updates_through_views(graph))
      updates_.emplace(update.value, update.state);
    std::set<ValueId> new_states;
    for (const auto& [value, state] : updates_) new_states.insert(value);
    if (in_place) pieces_ = joined_exchanges(graph);
    if (in_place) state_parts_ = joined_parts(graph, new_states);
    for (const auto& [value, piece] : pieces_) aliasing_.wholes.emplace(piece.whole, -1);
    find_last_reads();
    find_exchanges();
    find_update_targets();
  }

  Aliasing run() {
    for (size_t i = 0; i < graph_.values().size(); ++i) place_table_value({static_cast<int32_t>(i)});
    for (size_t step = 0; step < order_.size(); ++step)
      place_outputs(graph_.node(order_[step]), static_cast<int>(step));
    return std::move(aliasing_);
  }

 private:
  int end() const { return static_cast<int>(order_.size()); }
  int& last_read(ValueId id) { return last_read_[static_cast<size_t>(id.index)]; }
  Location& location(ValueId id) { return aliasing_.locations[static_cast<size_t>(id.index)]; }
  Root& root_of(ValueId id) { return aliasing_.roots[static_cast<size_t>(location(id).root)]; }
  int& read_until(int32_t root) { return read_until_[static_cast<size_t>(root)]; }

  void find_last_reads() {
    for (size_t step = 0; step < order_.size(); ++step)
      for (ValueId input : graph_.node(order_[step]).inputs) last_read(input) = static_cast<int>(step);
    for (const NamedValue& output : graph_.outputs()) last_read(output.value) = end();
    for (const StateUpdate& update : graph_.updates()) last_read(update.value) = end();
  }

  // Finds the state whose memory a value may take: follows each update back through in-place pairs and views.
  void find_update_targets() {
    for (const StateUpdate& update : graph_.updates()) {
      std::optional<ValueId> at = update.value;
      while (at && target_state_[static_cast<size_t>(at->index)] < 0) {
        target_state_[static_cast<size_t>(at->index)] = update.state;
        at = in_place_source(*at);
      }
    }
  }

  // Returns the first input that `value` may overwrite, judging by its op and the types.
  std::optional<ValueId> in_place_source(ValueId value) {
    const ValueInfo& info = graph_.value(value);
    if (info.kind != ValueKind::kNode) return std::nullopt;
    const Node& node = graph_.node(info.producer);
    for (ValueId input : in_place_candidates(node, info.index))
      if (graph_.type(input).bytes() == info.type.bytes()) return input;
    return std::nullopt;
  }

  // Describes how the node that is placed now uses a root. A grouped update has thousands of inputs and outputs, so a query
  // about one of them must not scan all.
  struct Touched {
    int step = -1;  // step of that node; the other fields are stale if it differs
    ValueId input;  // the node's first input in this root
    int reads = 0;
    std::vector<ValueId> others;  // its inputs in this root other than `input`
    bool by_outputs = false;      // true if an output placed so far is in this root
    int read_until = -1;          // the root's read_until before any output was placed
  };

  Touched& touch(int32_t root, int step) {
    Touched& touched = touched_[static_cast<size_t>(root)];
    if (touched.step == step) return touched;
    touched = {};
    touched.step = step;
    touched.read_until = read_until(root);
    return touched;
  }

  void touch_inputs(const Node& node, int step) {
    for (ValueId input : node.inputs) {
      Touched& touched = touch(location(input).root, step);
      if (touched.reads++ == 0) touched.input = input;
      if (touched.input != input) touched.others.push_back(input);
    }
  }

  // Caches the pairs of one node, because its outputs are asked about one after the other; a grouped update has a thousand.
  const std::vector<ValueId>& in_place_candidates(const Node& node, int output) {
    if (candidates_of_ != &node) {
      candidates_of_ = &node;
      std::vector<TensorType> outputs;
      for (ValueId id : node.outputs) outputs.push_back(graph_.type(id));
      candidates_.assign(node.outputs.size(), {});
      for (const InPlace& pair : in_place_pairs(*node.op, node.attributes, graph_.input_types(node), outputs))
        candidates_[static_cast<size_t>(pair.output)].push_back(node.inputs[static_cast<size_t>(pair.input)]);
    }
    return candidates_[static_cast<size_t>(output)];
  }

  int32_t new_root(Root root) {
    aliasing_.roots.push_back(root);
    read_until_.push_back(-1);
    touched_.emplace_back();
    return static_cast<int32_t>(aliasing_.roots.size()) - 1;
  }

  void settle(ValueId id, int32_t root, int64_t offset) {
    location(id) = {root, offset};
    read_until(root) = std::max(read_until(root), last_read(id));
    Root& home = aliasing_.roots[static_cast<size_t>(root)];
    home.last = std::max(home.last, last_read(id));
  }

  void place_table_value(ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (info.kind == ValueKind::kNode) return;
    const Space space = info.kind == ValueKind::kInput   ? Space::kInput
                        : info.kind == ValueKind::kState ? Space::kState
                                                         : Space::kConstant;
    const int32_t root =
        new_root({.space = space, .index = info.index, .bytes = info.type.bytes(), .value = id});
    if (space == Space::kState) state_roots_.emplace(info.index, root);
    settle(id, root, 0);
  }

  void place_outputs(const Node& node, int step) {
    touch_inputs(node, step);
    for (const ValueId id : node.outputs) {
      place_output(node, id, step);
      touch(location(id).root, step).by_outputs = true;
    }
    if (node.op->info.collective) keep_what_travels(node, step);
  }

  void place_output(const Node& node, ValueId id, int step) {
    if (try_joined(id, step) || try_joined_in_state(node, id)) return;
    if (try_view(node, id, step) || try_in_place(node, id, step)) return;
    if (try_state(id, step)) return;
    const int32_t root =
        new_root({.bytes = graph_.type(id).bytes(), .first = step, .last = step, .value = id});
    settle(id, root, 0);
  }

  // Places the result of a joined exchange at its offset in the concatenation, and the concatenation where its operands are.
  bool try_joined(ValueId id, int step) {
    if (const auto whole = aliasing_.wholes.find(id); whole != aliasing_.wholes.end()) {
      settle(id, whole->second, 0);
      return true;
    }
    const auto piece = pieces_.find(id);
    if (piece == pieces_.end()) return false;
    const ValueId whole = piece->second.whole;
    int32_t& root = aliasing_.wholes.at(whole);
    if (root < 0) {
      const int32_t state = target_state_[static_cast<size_t>(whole.index)];
      root = state >= 0 && is_update(whole, state) ? state_root_once_read(state, whole, step) : -1;
      if (root < 0)
        root = new_root({.bytes = graph_.type(whole).bytes(), .first = step, .last = step, .value = whole});
    }
    settle(id, root, piece->second.offset);
    return true;
  }

  // Places a concatenation that updates a state, if all its operands have been written into the state where they belong.
  bool try_joined_in_state(const Node& node, ValueId id) {
    const auto first = node.inputs.empty() ? state_parts_.end() : state_parts_.find(node.inputs[0]);
    if (first == state_parts_.end() || first->second.whole != id) return false;
    const int32_t root = location(node.inputs[0]).root;
    for (const ValueId input : node.inputs) {
      const auto part = state_parts_.find(input);
      if (part == state_parts_.end() || !is_in_place(part->second, location(input))) return false;
    }
    aliasing_.wholes.emplace(id, root);
    settle(id, root, 0);
    return true;
  }

  bool is_in_place(const JoinedPiece& part, const Location& at) const {
    const Root& root = aliasing_.roots[static_cast<size_t>(at.root)];
    return root.space == Space::kState && is_update(part.whole, root.index) && at.offset == part.offset;
  }

  bool try_view(const Node& node, ValueId id, int) {
    if (graph_.value(id).index != 0 || node.op->view_offset == nullptr) return false;
    const auto offset = node.op->view_offset(node.attributes, graph_.input_types(node));
    if (!offset) return false;
    const Location source = location(node.inputs[0]);
    settle(id, source.root, source.offset + *offset);
    return true;
  }

  bool try_in_place(const Node& node, ValueId id, int step) {
    if (!in_place_) return false;
    for (ValueId input : in_place_candidates(node, graph_.value(id).index)) {
      if (!may_overwrite(node, id, input, step)) continue;
      const Location source = location(input);
      // The old value is dead: from now on only the results of this node live in this root.
      if (!touch(source.root, step).by_outputs) read_until(source.root) = -1;
      settle(id, source.root, source.offset);
      return true;
    }
    return false;
  }

  bool may_overwrite(const Node& node, ValueId id, ValueId input, int step) {
    const Root& root = root_of(input);
    if (graph_.type(input).bytes() != graph_.type(id).bytes()) return false;
    if (root.bytes != graph_.type(id).bytes())
      return node.op->info.collective ? may_overwrite_part(id, input, step)
                                      : may_overwrite_in_state(id, input, step);
    if (root.space == Space::kState && target_state_[static_cast<size_t>(id.index)] != root.index)
      return false;
    if (root.space == Space::kInput || root.space == Space::kConstant) return false;
    const int32_t home = location(input).root;
    // No alias of the old bytes may be read later, and this node may read them through this input only. (An elementwise op
    // reads each element before it writes it, so the input may occur twice.)
    const Touched& touched = touched_[static_cast<size_t>(home)];
    if (touched.read_until > step) return false;
    if (!touched.others.empty() || touched.by_outputs) return false;
    return node.op->info.elementwise || touched.reads == 1;
  }

  // Returns whether a new slice of a state may overwrite the old one. The node may read other slices of the state as well.
  bool may_overwrite_in_state(ValueId id, ValueId input, int step) {
    const auto part = state_parts_.find(id);
    const Location at = location(input);
    if (part == state_parts_.end() || !is_in_place(part->second, at)) return false;
    const Touched& touched = touched_[static_cast<size_t>(at.root)];
    if (touched.read_until > step || touched.reads != static_cast<int>(touched.others.size()) + 1) return false;
    const auto is_apart = [&](ValueId other) {
      const int64_t begin = location(other).offset;
      return other == input || begin >= at.offset + graph_.type(id).bytes() ||
             begin + graph_.type(other).bytes() <= at.offset;
    };
    return is_apart(touched.input) && std::ranges::all_of(touched.others, is_apart);
  }

  // Returns whether the result of an exchange may overwrite its input, if all inputs together fill their buffer: gradients of
  // layers that were computed together. If they filled only a part, the buffer would live on and keep bytes that nothing reads.
  bool may_overwrite_part(ValueId id, ValueId input, int step) {
    const int32_t home = location(input).root;
    const Root& root = root_of(input);
    const Touched& touched = touched_[static_cast<size_t>(home)];
    if (root.space != Space::kArena || touched.read_until > step) return false;
    if (touched.reads != static_cast<int>(touched.others.size()) + 1) return false;
    if (graph_.type(id).bytes() == 0) return false;
    std::vector<ValueId> inputs = touched.others;
    inputs.push_back(touched.input);
    std::ranges::sort(inputs, {}, [&](ValueId id) { return location(id).offset; });
    int64_t covered = 0;
    for (const ValueId part : inputs) {
      if (location(part).offset != covered) return false;
      covered += graph_.type(part).bytes();
    }
    return covered == root.bytes;
  }

  // Keeps the inputs of an exchange alive until the next exchange. An exchange runs while later steps compute; if they reused
  // its memory earlier, they would have to wait. Exchanges that write only into states are awaited at the end of the run;
  // keeping their inputs until then takes no more memory than the gradients before them, which are dead by then.
  void keep_what_travels(const Node& node, int step) {
    const bool is_for_states = std::all_of(node.outputs.begin(), node.outputs.end(),
                                           [&](ValueId id) { return root_of(id).space == Space::kState; });
    const int last =
        is_for_states ? static_cast<int>(order_.size()) - 1 : next_exchange_[static_cast<size_t>(step)];
    for (ValueId input : node.inputs) {
      Root& root = root_of(input);
      root.last = std::max(root.last, last);
    }
  }
  void find_exchanges() {
    next_exchange_.assign(order_.size(), 0);
    for (int step = static_cast<int>(order_.size()), next = step - 1; step-- > 0;) {
      next_exchange_[static_cast<size_t>(step)] = next;
      if (graph_.node(order_[static_cast<size_t>(step)]).op->info.collective) next = step;
    }
  }

  // Writes the new value of a state directly into the state if its old value is not read any more.
  bool try_state(ValueId id, int step) {
    const int32_t state = target_state_[static_cast<size_t>(id.index)];
    if (!in_place_ || state < 0 || !is_update(id, state)) return false;
    const int32_t root = state_root_once_read(state, id, step);
    if (root < 0) return false;
    settle(id, root, 0);
    return true;
  }

  // Returns the root of the state for its new value; -1 if the old value is still read.
  int32_t state_root_once_read(int32_t state, ValueId id, int step) {
    const int32_t root = state_root(state, id);
    if (read_until(root) >= step) return -1;
    read_until(root) = -1;
    return root;
  }

  bool is_update(ValueId id, int32_t state) const { return updates_.contains({id, state}); }

  int32_t state_root(int32_t state, ValueId id) {
    const auto known = state_roots_.find(state);
    if (known != state_roots_.end()) return known->second;
    const int32_t root =
        new_root({.space = Space::kState, .index = state, .bytes = graph_.type(id).bytes(), .value = id});
    return state_roots_.emplace(state, root).first->second;
  }

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  const bool in_place_;
  Aliasing aliasing_;
  std::vector<Touched> touched_;    // by root
  std::vector<int> next_exchange_;  // by step: the next exchange after it, or else the last step
  std::vector<int> read_until_;     // by root: last step that reads a value living in it now; -1: none
  std::unordered_map<int32_t, int32_t> state_roots_;
  std::set<std::pair<ValueId, int32_t>> updates_;  // pairs of a value and the state that it updates
  std::vector<int> last_read_;                     // by value id: last step that reads it; -1: none
  std::map<ValueId, JoinedPiece> pieces_;          // by result of an exchange
  std::map<ValueId, JoinedPiece> state_parts_;     // by slice of a state's new value
  std::vector<int32_t> target_state_;              // by value id: the state whose memory it may take; -1: none
  const Node* candidates_of_ = nullptr;
  std::vector<std::vector<ValueId>> candidates_;  // for candidates_of_, by output
};

}  // namespace

std::vector<StateUpdate> updates_through_views(const Graph& graph) {
  std::vector<StateUpdate> updates;
  for (StateUpdate update : graph.updates()) {
    updates.push_back(update);
    for (auto source = viewed_whole(graph, update.value); source; source = viewed_whole(graph, *source)) {
      update.value = *source;
      updates.push_back(update);
    }
  }
  return updates;
}

Aliasing find_aliasing(const Graph& graph, const std::vector<NodeId>& order, bool in_place) {
  return Assigner(graph, order, in_place).run();
}

}  // namespace genesis::passes
