#include "passes/distribution/pipeline/stage_list.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "passes/core/match.h"
#include "passes/distribution/pipeline/schedule.h"

namespace genesis::passes {
namespace {

// The graph's nodes in an order. `exchange_at` gives, by position, the position where values that are needed there may be
// exchanged: the first position of its block, or of the blocks that start at the same time.
struct Order {
  std::vector<size_t> nodes, exchange_at;
};

Order graph_order(const Graph& graph) {
  Order order;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    order.nodes.push_back(i);
    order.exchange_at.push_back(i);
  }
  return order;
}

// Puts the nodes that all ranks compute first, then the blocks of stages and micro-batches by start time, then the updates.
class ScheduledOrder {
 public:
  ScheduledOrder(const StepPhases& phases, const StageAssignment& assignment, int64_t stages)
      : phases_(phases), assignment_(assignment), stages_(stages) {}

  Order run() {
    for (size_t i = 0; i < phases_.nodes.size(); ++i)
      if (phases_.nodes[i].phase != StepPhase::kUpdate) by_block_[key_of(i)].push_back(i);
    for (const size_t i : by_block_[kShared]) add(i, order_.nodes.size());
    add_blocks();
    for (size_t i = 0; i < phases_.nodes.size(); ++i)
      if (phases_.nodes[i].phase == StepPhase::kUpdate) add(i, order_.nodes.size());
    return std::move(order_);
  }

 private:
  using Key = std::tuple<int64_t, int64_t, bool>;  // stage, micro-batch, backward
  static constexpr Key kShared{kEveryStage, 0, false};

  Key key_of(size_t node) const {
    const auto [phase, micro_batch] = phases_.nodes[node];
    const int64_t stage = assignment_.nodes[node];
    return stage < 0 ? kShared : Key{stage, micro_batch, phase == StepPhase::kBackward};
  }

  // Assumes that a backward phase takes twice as long as a forward phase.
  void add_blocks() {
    const std::vector<double> once(static_cast<size_t>(stages_), 1), twice(static_cast<size_t>(stages_), 2);
    double start = -1;
    size_t begin = 0;
    for (const PipelineBlock& block : one_forward_one_backward({once, twice}, phases_.micro_batches).blocks) {
      if (block.start > start) begin = order_.nodes.size();
      start = block.start;
      for (const size_t i : by_block_[{block.stage, block.micro_batch, block.is_backward}]) add(i, begin);
    }
  }

  void add(size_t node, size_t exchange_at) {
    order_.nodes.push_back(node);
    order_.exchange_at.push_back(exchange_at);
  }

  const StepPhases& phases_;
  const StageAssignment& assignment_;
  const int64_t stages_;
  std::map<Key, std::vector<size_t>> by_block_;
  Order order_;
};

class Lister {
 public:
  Lister(const Graph& graph, const StageAssignment& assignment, int64_t stages, Order order)
      : graph_(graph), assignment_(assignment), stages_(stages), order_(std::move(order)) {
    for (const size_t node : order_.nodes) place_.push_back(node);
    for (size_t i = 0; i < order_.nodes.size(); ++i) place_[order_.nodes[i]] = i;
  }

  StageList run() {
    for (size_t i = 0; i < order_.nodes.size(); ++i) want_inputs(i);
    const size_t end = order_.nodes.size();
    for (const NamedValue& output : graph_.outputs()) want(output.value, kEveryStage, end);
    for (const StateUpdate& update : graph_.updates())
      want(update.value, assignment_.states[static_cast<size_t>(update.state)], end);
    list_.nodes = std::move(order_.nodes);
    return std::move(list_);
  }

  // Returns whether every value is computed before it is read or exchanged.
  bool fits() const {
    for (size_t i = 0; i < order_.nodes.size(); ++i)
      for (const ValueId input : graph_.nodes()[order_.nodes[i]].inputs)
        if (const NodeId maker = graph_.value(input).producer; maker.index >= 0) {
          const size_t made = place_[static_cast<size_t>(maker.index)];
          if (made >= i || (travels(input, i) && made >= order_.exchange_at[i])) return false;
        }
    return true;
  }

 private:
  int64_t stage_of(ValueId value) const { return assignment_.values[static_cast<size_t>(value.index)]; }
  int64_t reader_at(size_t place) const { return assignment_.nodes[order_.nodes[place]]; }

  bool travels(ValueId value, size_t place) const {
    return stage_of(value) >= 0 && reader_at(place) != kWhereInputsAre && reader_at(place) != stage_of(value);
  }

  void want_inputs(size_t place) {
    for (const ValueId input : graph_.nodes()[order_.nodes[place]].inputs)
      if (travels(input, place)) want(input, reader_at(place), order_.exchange_at[place]);
  }

  void want(ValueId value, int64_t stage, size_t place) {
    const int64_t from = stage_of(value);
    for (int64_t to = 0; from >= 0 && to < stages_; ++to)
      if (to != from && (stage == kEveryStage || stage == to) && there_.emplace(value, to).second)
        list_.transfers[place].push_back({value, from, to});
  }

  const Graph& graph_;
  const StageAssignment& assignment_;
  const int64_t stages_;
  Order order_;
  std::vector<size_t> place_;                    // by node id: its position in the order
  std::set<std::pair<ValueId, int64_t>> there_;  // pairs (value, stage) that have been listed
  StageList list_;
};

}  // namespace

StageList list_stages(const Graph& graph, const StepPhases& phases, const StageAssignment& assignment,
                      int64_t stages) {
  Lister scheduled(graph, assignment, stages, ScheduledOrder(phases, assignment, stages).run());
  if (scheduled.fits()) return scheduled.run();
  return Lister(graph, assignment, stages, graph_order(graph)).run();
}

}  // namespace genesis::passes
