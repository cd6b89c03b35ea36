// The entry point that measures what training is for: the loss of data that is not trained on. It is made of the entry
// point that was differentiated, in the precision of the training, without dropout and without its updates, and reads the
// averages of the weights (weight_average.h) where there are some.
#pragma once

#include <set>
#include <string>

#include "schema/graph/model.h"

namespace genesis::passes {

// With the inputs of one micro-batch, of which ranks along "data" have a part each. Outputs, the same on all ranks: loss
// f64[], the mean over the batch; and where it is one cross-entropy's mean over targets, what it divides by, f64[]: the
// number of targets that are not ignored, each as much as the weight of its class. So batches of which few targets count
// are not taken for as much as others. Where there is none, batches count alike. Further outputs are the numbers [] that the loss's entry point
// gives beside the loss and the training step keeps (step_outputs.h), such as an accuracy: f64[] for real
// numbers, whose mean is taken as the loss's is, i64[] for whole numbers and booleans, which are added up.
inline constexpr const char* kEvaluationEntry = "evaluate";
inline constexpr const char* kEvaluationWeight = "weight";
// Remembers, as states, the least of the losses that came so far ("evaluation.best") and how many came since
// ("evaluation.since_best"), so that a run that is resumed stops where it would have stopped. Input: loss f32[]; outputs:
// best f64[], since_best i64[], which is 0 for a new best. A loss that is no number is never the best.
inline constexpr const char* kEvaluatedEntry = "evaluated";

// Adds both to a model that has a training step; nothing where they are there already. Throws Error when the model has
// not been made ready for training.
void add_evaluation(Model& model);

// The names of the entry points that no training made: neither a training step nor an evaluation.
std::set<std::string> lasting_entries(const Model& model);
// The model with these alone, and the states that they read: its weights as they are, ready for another training.
std::unique_ptr<Model> without_training(const Model& model);

}  // namespace genesis::passes
