#include "builder/batch_norm.h"

#include "schema/graph/inactive_layers.h"
#include "schema/ops/nn/norm.h"

namespace genesis::nn {
namespace {

Value in_graph(Parameter parameter, Graph& graph) { return parameter ? parameter.in(graph) : Value{}; }

// Returns the current value of a state in the graph. If the graph already uses the layer, this is the value after the last of
// these uses, so that the updates follow on one another.
Value latest(Graph& graph, Parameter parameter) {
  for (const StateUpdate& update : graph.updates())
    if (update.state == parameter.index) return graph.handle(update.value);
  return parameter.in(graph);
}

}  // namespace

BatchNormStates make_batch_norm(const Scope& scope, int64_t num_features, double eps, double momentum,
                                bool affine, bool track_running_stats) {
  BatchNormStates states{.num_features = num_features, .eps = eps, .momentum = momentum};
  if (affine) {
    states.weight = scope.parameter("weight", {num_features}, init::ones());
    states.bias = scope.parameter("bias", {num_features}, init::zeros());
  }
  if (track_running_stats) {
    states.running_mean = scope.buffer("running_mean", {num_features});
    states.running_var = scope.buffer("running_var", {num_features}, init::ones());
  }
  return states;
}

Value run_batch_norm(const BatchNormStates& s, const std::string& path, Value x, int min_rank, int max_rank) {
  Graph& graph = *x.graph;
  if (x.rank() < min_rank || x.rank() > max_rank || !(x.dim(1) == Dim(s.num_features)))
    fail("layer '{}' takes x [N, {}{}] with {} to {} axes, got {}", path, s.num_features,
         min_rank > 2 ? ", ..." : "", min_rank, max_rank, x.shape().to_string());
  const bool tracked = bool(s.running_mean);
  const BatchNormResult result = batch_norm(x, in_graph(s.weight, graph), in_graph(s.bias, graph),
                                            tracked ? latest(graph, s.running_mean) : Value{},
                                            tracked ? latest(graph, s.running_var) : Value{},
                                            graph.training() || !tracked, s.momentum, s.eps);
  if (!graph.training() && tracked) note_inactive_layer(graph, "batch norm '" + path + "'");
  if (graph.training() && tracked) {
    graph.add_update(s.running_mean.index, result.running_mean);
    graph.add_update(s.running_var.index, result.running_var);
  }
  return result.y;
}

}  // namespace genesis::nn
