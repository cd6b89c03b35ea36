// Makes the graph that a training step differentiates and an evaluation measures, and finds the means over targets in it. A
// batch may be computed by ranks or as micro-batches. Its loss is the mean of theirs only if all of them divide by the divisor
// of the whole batch, because the number of targets that count differs between them.
#pragma once

#include <vector>

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Returns the entry point as authored, or cast to low precision. Throws an Error that names a pattern in keep_f32 without a
// match.
Graph training_loss(Model& model, const TrainOptions& options);

// A mean over class targets: targets equal to `ignored` do not count, the others count as much as the weight of their class.
struct MeanOverTargets {
  NodeId node;  // a cross_entropy or linear_cross_entropy
  Value target, class_weights = {};
  int64_t ignored = 0;
};

// Returns the means over targets that `loss` is computed from.
std::vector<MeanOverTargets> means_in(Graph& graph, Value loss);
// Returns the divisor of the mean, f64[].
Value weight_of(const MeanOverTargets& mean);

// Returns a graph with the inputs of `loss` and one output for each mean that the output `name` is computed from: its divisor.
// It has no outputs if a divisor depends on random numbers, on other ranks or on states that the loss updates. `nodes` becomes
// the nodes of the means in `loss`.
Graph weights_of_means(const Graph& loss, const std::string& name, std::vector<NodeId>& nodes);
// Adds a copy of `node` with these inputs to `graph` and returns its mean over `divisor` (f64[]) instead of its own divisor.
Value divided_mean(Graph& graph, const Node& node, std::vector<Value> inputs, Value divisor);

}  // namespace genesis::passes
