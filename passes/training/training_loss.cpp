#include "passes/training/training_loss.h"

#include <algorithm>
#include <utility>

#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/pipelines.h"
#include "passes/precision/cast_precision.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

template <class Op>
void add_mean(Graph& graph, const Node& node, size_t target, std::vector<MeanOverTargets>& means) {
  const auto loss = match<Op>(node);
  if (!loss || loss->reduction != Reduction::kMean) return;
  MeanOverTargets mean{
      .node = id_of(graph, node), .target = graph.handle(loss.input(target)), .ignored = loss->ignore_index};
  if (is_float(mean.target.dtype())) return;  // probabilities, which all count
  if (loss.num_inputs() > target + 1) mean.class_weights = graph.handle(loss.input(target + 1));
  means.push_back(mean);
}

bool is_updated(const Graph& graph, int32_t state) {
  return std::ranges::find(graph.updates(), state, &StateUpdate::state) != graph.updates().end();
}

// Returns whether `graph`, made from `loss`, has the same result before a micro-batch as in it: it reads no state that `loss`
// updates, no random numbers and no other ranks.
bool is_known_ahead(const Graph& graph, const Graph& loss) {
  const Uses uses(graph);
  const auto& values = graph.values();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].kind == ValueKind::kState && uses.count({static_cast<int32_t>(i)}) > 0 &&
        is_updated(loss, values[i].index))
      return false;
  return std::ranges::none_of(
      graph.nodes(), [](const Node& node) { return node.op->info.random || node.op->info.collective; });
}

Graph with_inputs_of(const Graph& graph) {
  Graph other(graph.model(), graph.name());
  for (const ValueId id : graph.inputs()) other.add_input(graph.value(id).name, graph.type(id));
  return other;
}

}  // namespace

Graph training_loss(Model& model, const TrainOptions& options) {
  const Graph& authored = std::as_const(model).entry(options.entry);
  if (options.precision == TrainPrecision::kF32) return copy_graph(authored, model);
  check_keep_f32(authored, options.keep_f32);
  const DType low = options.precision == TrainPrecision::kBf16 ? DType::bf16 : DType::f16;
  Graph mixed = mixed_precision(authored, low, options.keep_f32);
  return options.merge_projections ? run_passes(mixed, low_precision_pipeline(), {}) : std::move(mixed);
}

std::vector<MeanOverTargets> means_in(Graph& graph, Value loss) {
  std::vector<MeanOverTargets> means;
  const Node* made_by = producer(graph, loss.id);
  if (!made_by) return means;
  const std::vector<bool> needed = needed_by(graph, {id_of(graph, *made_by)});
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    add_mean<ops::CrossEntropy>(graph, graph.nodes()[i], 1, means);
    add_mean<ops::LinearCrossEntropy>(graph, graph.nodes()[i], 2, means);
  }
  return means;
}

Value weight_of(const MeanOverTargets& mean) {
  const Value counts = ne(mean.target, scalar_like(mean.target, mean.ignored));
  if (!mean.class_weights) return cast(sum(cast(counts, DType::i64)), DType::f64);
  const Value target = where(counts, mean.target, scalar_like(mean.target, 0));
  const Value weights = squeeze(embedding(target, unsqueeze(mean.class_weights, -1)), -1);
  return sum(cast(where(counts, weights, scalar_like(weights, 0)), DType::f64));
}

Graph weights_of_means(const Graph& loss, const std::string& name, std::vector<NodeId>& nodes) {
  Graph whole = with_inputs_of(loss);
  std::vector<Value> inputs;
  for (const ValueId id : whole.inputs()) inputs.push_back(whole.handle(id));
  const InlinedGraph copy = inline_graph(whole, loss, inputs);  // node ids stay the same
  nodes.clear();
  if (const auto output = copy.outputs.find(name); output != copy.outputs.end())
    for (const MeanOverTargets& mean : means_in(whole, output->second)) {
      whole.add_output("weight_" + std::to_string(nodes.size()), weight_of(mean));
      nodes.push_back(mean.node);
    }
  Graph weights = without_dead_nodes(whole);
  return is_known_ahead(weights, loss) ? std::move(weights) : with_inputs_of(loss);
}

Value divided_mean(Graph& graph, const Node& node, std::vector<Value> inputs, Value divisor) {
  Attributes attributes = node.attributes;
  const bool divides_itself = is<ops::LinearCrossEntropy>(node);
  if (divides_itself) {
    inputs.push_back(divisor);
  } else {
    auto summing = from_attributes<ops::CrossEntropy>(node.attributes);
    summing.reduction = Reduction::kSum;
    attributes = to_attributes(summing);
  }
  graph.set_origins(graph.has_name(node.name) ? origins_of(node) : node.origins);
  const Value loss = graph.add_node(*node.op, attributes, inputs, node.name)[0];
  graph.set_origins({});
  return divides_itself ? loss : cast(cast(loss, DType::f64) / divisor, loss.dtype());
}

}  // namespace genesis::passes
