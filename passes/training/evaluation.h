// Makes the entry point that measures the loss on data that is not trained on. It is the entry point that was differentiated,
// in the precision of the training, without dropout and without its updates. It reads the averages of the weights
// (weight_average.h) if there are some.
#pragma once

#include <set>
#include <string>

#include "schema/graph/model.h"

namespace genesis::passes {

// Takes the inputs of one micro-batch; each rank along "data" has its share of them. Outputs, the same on all ranks: `loss`
// f64[], the mean over the batch; and `weight` f64[] if the loss contains exactly one mean over targets: its divisor, the
// number of targets that are not ignored, each weighted by its class. With it, a batch of few targets counts less than a batch
// of many; without it, batches count alike. Further outputs are the numbers [] that the loss's entry point returns besides the
// loss and that the training step keeps (step_outputs.h), such as an accuracy: f64[] for floating point, averaged like the
// loss, i64[] for integers and booleans, which are summed.
inline constexpr const char* kEvaluationEntry = "evaluate";
inline constexpr const char* kEvaluationWeight = "weight";
// Keeps, in states, the lowest loss so far ("evaluation.best") and the number of losses since then ("evaluation.since_best"),
// so that a resumed run stops where it would have stopped without the interruption. Input: loss f32[]; outputs: best f64[],
// since_best i64[], which is 0 for a new best. A NaN is never the best.
inline constexpr const char* kEvaluatedEntry = "evaluated";

// Adds both entry points to a model that has a training step; does nothing if they exist already. Throws an Error if the model
// has not been prepared for training.
void add_evaluation(Model& model);

// Returns the names of the entry points that training did not make: all but training steps and evaluations.
std::set<std::string> lasting_entries(const Model& model);
// Returns the model with only these entry points and the states that they read: its weights as they are, ready for another
// training.
std::unique_ptr<Model> without_training(const Model& model);

}  // namespace genesis::passes
