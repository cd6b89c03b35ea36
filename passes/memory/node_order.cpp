#include "passes/memory/node_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "passes/core/analysis.h"
#include "passes/memory/aliasing.h"

namespace genesis::passes {
namespace {

size_t at(NodeId id) { return static_cast<size_t>(id.index); }
size_t at(ValueId id) { return static_cast<size_t>(id.index); }

// Returns the bytes that a value takes in the arena; views take none.
int64_t bytes_of(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  if (value.kind != ValueKind::kNode) return 0;
  const Node& node = graph.node(value.producer);
  if (node.op->view_offset && node.op->view_offset(node.attributes, graph.input_types(node))) return 0;
  return value.type.bytes();
}

// Returns the bytes that every value takes in the arena.
std::vector<int64_t> bytes_of_values(const Graph& graph) {
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < graph.values().size(); ++i)
    bytes.push_back(bytes_of(graph, {static_cast<int32_t>(i)}));
  return bytes;
}

constexpr NodeId kNobody{-1};

// Returns whether the node reads nothing from the arena (constants, arange, a cast of a weight): running it early only keeps
// its result alive longer.
bool needs_no_arena(const Graph& graph, const Node& node) {
  return std::ranges::all_of(node.inputs,
                             [&](ValueId id) { return graph.value(id).kind != ValueKind::kNode; });
}

// Returns whether all inputs are states, inputs or constants, or are computed from these by one node.
bool is_made_of_states(const Graph& graph, const Node& node) {
  return std::ranges::all_of(node.inputs, [&](ValueId id) {
    const ValueInfo& value = graph.value(id);
    return value.kind != ValueKind::kNode || needs_no_arena(graph, graph.node(value.producer));
  });
}

// Returns, for each exchange of states (a layer's weights), the node that it must precede because it does in the graph: the
// exchange runs while the nodes from there on compute. kNobody for other nodes. By live bytes alone, the best place for the
// exchange would be right before its reader, which would have to wait.
std::vector<NodeId> begun_before(const Graph& graph) {
  std::vector<NodeId> behind(graph.nodes().size(), kNobody);
  std::vector<size_t> exchanges;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (needs_no_arena(graph, node) && !node.op->info.collective) continue;
    const bool of_states = node.op->info.collective && is_made_of_states(graph, node);
    if (of_states) exchanges.push_back(i);
    if (of_states || node.op->info.collective) continue;
    for (const size_t exchange : exchanges) behind[exchange] = {static_cast<int32_t>(i)};
    exchanges.clear();
  }
  return behind;
}

// Emits nodes in graph order, but delays the movable ones until a node needs them.
class LateOrder {
 public:
  explicit LateOrder(const Graph& graph) : graph_(graph), done_(graph.nodes().size(), false) {}

  std::vector<NodeId> run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i)
      if (!needs_no_arena(graph_, graph_.nodes()[i]) || graph_.nodes()[i].op->info.collective)
        emit({static_cast<int32_t>(i)});
    for (size_t i = 0; i < graph_.nodes().size(); ++i)
      emit({static_cast<int32_t>(i)});  // nodes that only outputs need
    return std::move(order_);
  }

 private:
  // Movable nodes have no inputs from nodes, so one level of recursion is enough.
  void emit(NodeId id) {
    if (done_[at(id)]) return;
    for (ValueId input : graph_.node(id).inputs)
      if (graph_.value(input).kind == ValueKind::kNode && !done_[at(graph_.value(input).producer)])
        emit_one(graph_.value(input).producer);
    emit_one(id);
  }
  void emit_one(NodeId id) {
    done_[at(id)] = true;
    order_.push_back(id);
  }

  const Graph& graph_;
  std::vector<bool> done_;
  std::vector<NodeId> order_;
};

// List scheduling: of the ready nodes runs the one that costs least, by cost_of() the bytes that it adds to the live ones. `turns`
// decide between nodes of equal cost. `bytes` are those of each value.
class ListOrder {
 public:
  using CostOf = int64_t (*)(int64_t growth);

  ListOrder(const Graph& graph, CostOf cost_of, std::vector<int64_t> bytes, std::vector<uint32_t> turns)
      : graph_(graph),
        cost_of_(cost_of),
        turns_(std::move(turns)),
        readers_(graph.values().size()),
        followers_(graph.nodes().size()),
        waiting_(graph.nodes().size(), 0),
        growth_(graph.nodes().size(), 0),
        done_(graph.nodes().size(), false),
        bytes_(std::move(bytes)),
        left_(graph.values().size(), 0) {
    for (size_t i = 0; i < graph.nodes().size(); ++i)
      for (ValueId input : distinct_inputs({static_cast<int32_t>(i)})) {
        readers_[at(input)].push_back({static_cast<int32_t>(i)});
        ++left_[at(input)];
        if (graph.value(input).kind == ValueKind::kNode) ++waiting_[i];
      }
    for (const NamedValue& output : graph.outputs()) ++left_[at(output.value)];  // never freed
    for (const StateUpdate& update : graph.updates()) ++left_[at(update.value)];
    hold_updates_back();
    hold_exchanges();
    keep_between_exchanges();
    for (size_t i = 0; i < graph.nodes().size(); ++i) growth_[i] = growth_at_first({static_cast<int32_t>(i)});
  }

  std::vector<NodeId> run() {
    for (size_t i = 0; i < waiting_.size(); ++i)
      if (waiting_[i] == 0) ready_.insert(key({static_cast<int32_t>(i)}));
    std::vector<NodeId> order;
    while (!ready_.empty()) {
      const NodeId next{std::get<2>(*ready_.begin())};
      ready_.erase(ready_.begin());
      order.push_back(next);
      finish(next);
    }
    return order;
  }

 private:
  using Key =
      std::tuple<int64_t, uint32_t, int32_t>;  // cost of the growth of live bytes, turn, the graph's order

  // Puts updates of states after the readers of the old value, so that the state can be updated in place. Readers after the
  // update in the graph may depend on it and are not waited for.
  void hold_updates_back() {
    std::map<int32_t, ValueId> states;
    for (size_t i = 0; i < graph_.values().size(); ++i)
      if (graph_.values()[i].kind == ValueKind::kState)
        states[graph_.values()[i].index] = {static_cast<int32_t>(i)};
    for (const StateUpdate& update : updates_through_views(graph_)) {
      const ValueInfo& value = graph_.value(update.value);
      const auto state = states.find(update.state);
      if (value.kind != ValueKind::kNode || state == states.end()) continue;
      for (NodeId reader : readers_[static_cast<size_t>(state->second.index)]) {
        if (reader >= value.producer) continue;
        put_before(reader, value.producer);
      }
    }
  }

  // Keeps each exchange of states between the node that it must precede and the node that the previous exchange must precede.
  void hold_exchanges() {
    const std::vector<NodeId> behind = begun_before(graph_);
    NodeId before = kNobody, next = kNobody;
    for (size_t i = 0; i < behind.size(); ++i) {
      if (behind[i] == kNobody) continue;
      const NodeId exchange{static_cast<int32_t>(i)};
      if (!(behind[i] == next)) before = std::exchange(next, behind[i]);
      put_before(exchange, behind[i]);
      if (!(before == kNobody)) put_before(before, exchange);
    }
  }

  // If ranks have different graphs, keeps every node before the exchange that follows it: it is the work of this rank until the
  // peer is ready. Running it later would save memory, but the ranks would wait for each other in turn.
  void keep_between_exchanges() {
    const std::vector<Precedence> order = order_of_exchanges(graph_);
    if (order.empty()) return;
    NodeId last = kNobody;
    std::vector<NodeId> behind;  // nodes after the last exchange
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      const bool is_exchange = graph_.node(id).op->info.collective;
      if (is_exchange)
        for (const NodeId node : std::exchange(behind, {})) put_before(node, id);
      if (!(last == kNobody)) put_before(last, id);
      if (is_exchange)
        last = id;
      else if (!needs_no_arena(graph_, graph_.node(id)))
        behind.push_back(id);
    }
  }

  void put_before(NodeId first, NodeId second) {
    followers_[at(first)].push_back(second);
    ++waiting_[at(second)];
  }

  std::vector<ValueId> distinct_inputs(NodeId id) const {
    std::vector<ValueId> inputs = graph_.node(id).inputs;
    std::ranges::sort(inputs);
    inputs.erase(std::ranges::unique(inputs).begin(), inputs.end());
    return inputs;
  }

  int64_t growth_at_first(NodeId id) const {
    int64_t growth = 0;
    for (ValueId output : graph_.node(id).outputs) growth += bytes_[at(output)];
    for (ValueId input : distinct_inputs(id))
      if (left_[at(input)] == 1) growth -= bytes_[at(input)];
    return growth;
  }

  Key key(NodeId id) const { return {cost_of_(growth_[at(id)]), turns_[at(id)], id.index}; }

  void finish(NodeId id) {
    done_[at(id)] = true;
    for (ValueId input : distinct_inputs(id)) release(input);
    for (ValueId output : graph_.node(id).outputs)
      for (NodeId reader : readers_[at(output)])
        if (--waiting_[at(reader)] == 0) ready_.insert(key(reader));
    for (NodeId update : followers_[at(id)])
      if (--waiting_[at(update)] == 0) ready_.insert(key(update));
  }

  // Counts one reader less. The last remaining reader now frees the value, so its key changes.
  void release(ValueId value) {
    if (--left_[at(value)] != 1 || bytes_[at(value)] == 0) return;
    const auto& readers = readers_[at(value)];
    const auto last = std::ranges::find_if(readers, [&](NodeId id) { return !done_[at(id)]; });
    if (last == readers.end()) return;  // an output or an update
    const bool is_ready = ready_.erase(key(*last)) > 0;
    growth_[at(*last)] -= bytes_[at(value)];
    if (is_ready) ready_.insert(key(*last));
  }

  const Graph& graph_;
  const CostOf cost_of_;
  const std::vector<uint32_t> turns_;           // by node id
  std::vector<std::vector<NodeId>> readers_;    // by value id
  std::vector<std::vector<NodeId>> followers_;  // by node id: nodes that wait for it besides its readers
  std::vector<int> waiting_;                    // by node id: number of nodes that must run first
  std::vector<int64_t> growth_;                 // by node id: growth of the live bytes if it ran next
  std::vector<bool> done_;                      // by node id
  std::vector<int64_t> bytes_;                  // by value id
  std::vector<int> left_;                       // by value id: readers that have not run
  std::set<Key> ready_;
};

int64_t every_byte(int64_t growth) { return growth; }

// Returns 1 if the node takes memory. The sum of a gradient's squares and the like count as none: a gradient is only free once they
// have read it.
int64_t takes_memory(int64_t growth) {
  constexpr int64_t kNegligible = 256;  // bytes
  return growth > kNegligible ? 1 : 0;
}

// Breaks ties between equally good nodes: by the graph's order, or by one of many others.
std::vector<uint32_t> shuffled_turns(size_t nodes, uint32_t variation) {
  std::vector<uint32_t> turns(nodes, 0);
  for (uint32_t i = 0; i < nodes && variation > 0; ++i)
    turns[i] = (i + 1) * 2654435761u * (2 * variation + 1) >> 16;
  return turns;
}

}  // namespace

std::vector<NodeId> graph_order(const Graph& graph) {
  std::vector<NodeId> order;
  for (size_t i = 0; i < graph.nodes().size(); ++i) order.push_back({static_cast<int32_t>(i)});
  return order;
}

std::vector<NodeId> late_order(const Graph& graph) { return LateOrder(graph).run(); }

// Counts new values of states as if they took memory. Without them updates would come before nodes that free less now and more
// later: in training by Muon the arena of a small model grew by 1.6%.
std::vector<NodeId> greedy_order(const Graph& graph, uint32_t variation) {
  return ListOrder(graph, every_byte, bytes_of_values(graph), shuffled_turns(graph.nodes().size(), variation))
      .run();
}

// The new value of a state takes no memory: it is written over the old one, which nothing reads any more
// (ListOrder::hold_updates_back).
std::vector<NodeId> eager_order(const Graph& graph) {
  std::vector<int64_t> bytes = bytes_of_values(graph);
  for (const StateUpdate& update : updates_through_views(graph)) bytes[at(update.value)] = 0;
  std::vector<uint32_t> turns(graph.nodes().size());
  uint32_t turn = 0;
  for (const NodeId id : late_order(graph)) turns[at(id)] = turn++;
  return ListOrder(graph, takes_memory, std::move(bytes), std::move(turns)).run();
}

}  // namespace genesis::passes
