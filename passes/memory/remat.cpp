#include "passes/memory/passes.h"

#include <algorithm>

#include "passes/core/rewriter.h"
#include "passes/memory/make_plan.h"
#include "passes/memory/remat_schedule.h"
#include "schema/graph/memory_text.h"

namespace genesis::passes {
namespace {

constexpr int kMaxAttempts = 6;
constexpr size_t kMaxTries = 64;  // moves that are tried before giving up on a peak

bool is_better(const RematSchedule::Liveness& now, const RematSchedule::Liveness& before) {
  return now.peak < before.peak || (now.peak == before.peak && now.items_at_peak < before.items_at_peak);
}

// Applies the first move that lowers the peak, or the number of places with that peak.
bool lower_peak(RematSchedule& schedule, RematSchedule::Liveness& liveness) {
  const std::vector<RematSchedule::Move> moves = schedule.moves(liveness);
  for (size_t i = 0; i < std::min(moves.size(), kMaxTries); ++i) {
    RematSchedule tried = schedule;
    tried.apply(moves[i]);
    RematSchedule::Liveness now = tried.liveness();
    if (!is_better(now, liveness)) continue;
    schedule = std::move(tried);
    liveness = std::move(now);
    return true;
  }
  return false;
}

// Removes repeated items that later moves have made unnecessary, the most expensive first.
void take_back(RematSchedule& schedule, int64_t most) {
  std::vector<std::pair<double, NodeId>> repeated;
  for (size_t i = 0; i < schedule.items().size(); ++i)
    if (schedule.items()[i].again)
      repeated.emplace_back(-schedule.work_of(static_cast<int>(i)), schedule.items()[i].node);
  std::ranges::sort(repeated);
  repeated.erase(std::ranges::unique(repeated).begin(), repeated.end());
  for (const auto& [work, node] : repeated)
    for (int i = static_cast<int>(schedule.items().size()); i-- > 0;) {
      if (schedule.items()[static_cast<size_t>(i)].node != node ||
          !schedule.items()[static_cast<size_t>(i)].again)
        continue;
      RematSchedule tried = schedule;
      tried.drop(i);
      if (tried.liveness().peak <= most) schedule = std::move(tried);
    }
}

// Lowers the peak to `aim`, or as far as possible.
bool reduce(RematSchedule& schedule, int64_t aim) {
  RematSchedule::Liveness liveness = schedule.liveness();
  while (liveness.peak > aim)
    if (!lower_peak(schedule, liveness)) break;
  const bool met = liveness.peak <= aim;
  take_back(schedule, std::max(aim, liveness.peak));
  return met;
}

Graph graph_of(const Graph& graph, const RematSchedule& schedule) {
  Rewriter rewriter(graph);
  std::vector<Value> made;  // by value id of the schedule
  const auto set = [&](RematSchedule::Id id, Value value) {
    made.resize(std::max(made.size(), static_cast<size_t>(id) + 1));
    made[static_cast<size_t>(id)] = value;
  };
  for (const RematSchedule::Item& item : schedule.items().list()) {
    const Node& node = graph.node(item.node);
    for (RematSchedule::Id input : schedule.items().inputs(item))
      if (graph.value(schedule.original(input)).kind == ValueKind::kNode)
        rewriter.replace(schedule.original(input), made[static_cast<size_t>(input)]);
    if (item.again) {
      rewriter.begin_nodes_from({&node});
      rewriter.replace(node, rewriter.graph().add_node(*node.op, node.attributes, rewriter.map(node.inputs),
                                                       node.name + ".again"));
      rewriter.end_nodes_from();
    } else {
      rewriter.copy(node);
    }
    const std::span<const RematSchedule::Id> outputs = schedule.items().outputs(item);
    for (size_t i = 0; i < outputs.size(); ++i) set(outputs[i], rewriter.map(node.outputs[i]));
  }
  // Outputs and updates use the results of the original nodes.
  for (const NamedValue& output : graph.outputs())
    if (graph.value(output.value).kind == ValueKind::kNode)
      rewriter.replace(output.value, made[static_cast<size_t>(output.value.index)]);
  for (const StateUpdate& update : graph.updates())
    if (graph.value(update.value).kind == ValueKind::kNode)
      rewriter.replace(update.value, made[static_cast<size_t>(update.value.index)]);
  return rewriter.finish();
}

[[noreturn]] void fail_budget(int64_t budget, const Plan& plan) {
  const auto both = [](int64_t bytes) {  // in bytes, too: a budget may be given to the byte
    return fmt::format("{} ({} bytes)", human_bytes(bytes), bytes);
  };
  fail(
      "the memory budget of {} cannot be met: with everything computed again that helps, the step needs {}; "
      "take smaller batches, accumulate=N micro-batches, or bf16; the largest values left are:{}",
      both(budget), both(plan.arena_bytes), memory_lines(plan.peak, 5));
}

}  // namespace

Graph rematerialize(const Graph& graph, const PassContext& context) {
  if (!context.memory_budget) return graph.share();
  const int64_t budget = *context.memory_budget;
  const Target target = context.target ? *context.target : Target{};
  Plan plan = make_plan(graph, target);
  if (plan.arena_bytes <= budget) return graph.share();
  RematSchedule schedule(graph, planned_order(graph, target), target);
  // The schedule does not count gaps between offsets, so the aim is lowered by the difference.
  int64_t aim = budget;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const bool met = reduce(schedule, aim);
    Graph result = graph_of(graph, schedule);
    plan = make_plan(result, target);
    if (plan.arena_bytes <= budget || (budget == 0 && !met)) return result;
    if (!met) break;
    aim -= plan.arena_bytes - budget;
  }
  fail_budget(budget, plan);
}

}  // namespace genesis::passes
