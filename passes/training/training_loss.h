// The graph that a training step differentiates and an evaluation measures, and the means over targets that it is made of:
// a batch that is computed in parts, by ranks or one after the other, is the mean of its parts only where each part divides
// by what the whole batch does, for parts differ in how many of their targets count.
#pragma once

#include <vector>

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// The entry point as authored, or the same in low precision. Throws Error naming what keep_f32 names in vain.
Graph training_loss(Model& model, const TrainOptions& options);

// A mean over class targets: those that are `ignored` do not count, the others as much as their class weighs.
struct MeanOverTargets {
  NodeId node;  // a cross_entropy or linear_cross_entropy
  Value target, class_weights = {};
  int64_t ignored = 0;
};

// That `loss` is made of.
std::vector<MeanOverTargets> means_in(Graph& graph, Value loss);
// What the mean divides by, f64[].
Value weight_of(const MeanOverTargets& mean);

// An entry point with the inputs of `loss` whose outputs say, for each mean that its output `name` is made of, what it divides
// by; no outputs where that depends on random numbers or on what the loss updates. `nodes` are those of the means in `loss`.
Graph weights_of_means(const Graph& loss, const std::string& name, std::vector<NodeId>& nodes);
// The mean of `node`, a copy of which goes into `graph` with these inputs, over `divisor` (f64[]) in place of its own.
Value divided_mean(Graph& graph, const Node& node, std::vector<Value> inputs, Value divisor);

}  // namespace genesis::passes
