#include "passes/training/for_evaluation.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// The states that keep the mean and the variance of a batch norm, by its outputs 1 and 2.
using Statistics = std::map<ValueId, int32_t>;

// Returns the mean or the variance of a batch norm that a new running statistic is computed from, through elementwise ops and reshapes.
std::optional<ValueId> statistic_behind(const Graph& graph, ValueId value, int depth = 0) {
  constexpr int kMaxOps = 12;  // one update has about six
  const ValueInfo& info = graph.value(value);
  if (info.kind != ValueKind::kNode || depth > kMaxOps) return std::nullopt;
  const Node& node = graph.node(info.producer);
  if (is<ops::BatchNorm>(*node.op)) return value == node.outputs[0] ? std::nullopt : std::optional(value);
  if (!node.op->info.elementwise && !is<ops::Reshape, ops::Cast>(*node.op)) return std::nullopt;
  for (const ValueId input : node.inputs)
    if (const auto found = statistic_behind(graph, input, depth + 1)) return found;
  return std::nullopt;
}

Statistics running_statistics(const Graph& graph) {
  Statistics statistics;
  for (const StateUpdate& update : graph.updates())
    if (const auto found = statistic_behind(graph, update.value)) statistics[*found] = update.state;
  return statistics;
}

// Returns y of a batch norm over x with running statistics; its own addend and relu stay.
Value evaluated(Rewriter& rewriter, const Node& node, const ops::BatchNorm& op, int32_t mean, int32_t var) {
  Graph& graph = rewriter.graph();
  const Value x = rewriter.map(node.inputs[0]);
  const Value y = batch_norm(x, rewriter.map(node.inputs[1]), rewriter.map(node.inputs[2]), graph.state(mean),
                             graph.state(var), false, 0, op.eps)
                      .y;
  const Value sum = op.has_addend ? y + rewriter.map(node.inputs[3]) : y;
  return op.relu ? relu(sum) : sum;
}

// The count of batches that torch keeps beside the running statistics.
void drop_count(Rewriter& rewriter, const Model& model, int32_t mean) {
  const std::string& name = model.state(mean).name;
  const int32_t count = model.find_state(name.substr(0, name.rfind('.') + 1) + "num_batches_tracked");
  if (count >= 0) rewriter.drop_update(count);
}

}  // namespace

ForEvaluation for_evaluation(const Graph& graph) {
  const Statistics statistics = running_statistics(graph);
  int64_t batch_norms = 0, dropouts = 0;
  const auto visit = [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (match<ops::Dropout>(node)) {
      ++dropouts;
      return std::vector<Value>{rewriter.map(node.inputs[1])};
    }
    const auto op = match<ops::BatchNorm>(node);
    if (!op || op->channels_last) return std::nullopt;
    const auto mean = statistics.find(node.outputs[1]), var = statistics.find(node.outputs[2]);
    if (mean == statistics.end() || var == statistics.end()) return std::nullopt;
    rewriter.drop_update(mean->second), rewriter.drop_update(var->second);
    drop_count(rewriter, graph.model(), mean->second);
    ++batch_norms;
    // The nodes that computed the new statistics read the old ones until they are removed, as nothing needs them.
    const DType wide = graph.type(node.outputs[1]).dtype;
    const auto running = [&](int32_t state) { return cast(rewriter.graph().state(state), wide); };
    return std::vector<Value>{evaluated(rewriter, node, from_attributes<ops::BatchNorm>(node.attributes),
                                        mean->second, var->second),
                              running(mean->second), running(var->second)};
  };
  Graph made = rewrite(graph, visit);
  return {std::move(made), batch_norms, dropouts};
}

}  // namespace genesis::passes
