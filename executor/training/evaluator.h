// Evaluates a model during training on data that it is not trained on: the mean loss, if it is the best so far, and the update of
// the `plateau` schedule.
#pragma once

#include <map>
#include <string>

#include "executor/session.h"
#include "executor/training/batch_source.h"

namespace genesis {

struct Evaluation {
  double loss = 0;
  // The other outputs of the evaluation's entry point (passes/training/evaluation.h).
  std::map<std::string, double> outputs;
  int64_t since_best = 0;  // evaluations since the lowest loss; 0: this is the lowest
};

class Evaluator {
 public:
  // The model must have the entry points of passes::add_evaluation(). Takes `batches` batches from the beginning of the source,
  // at most one pass over the data; 0: one pass. Throws Error if the source is endless and `batches` is 0.
  Evaluator(Session& session, BatchSource& source, int64_t batches);
  // Evaluates between two steps. Also updates the schedule `plateau` if the model has it.
  Evaluation run();

 private:
  Evaluation over_data();

  Session& session_;
  BatchSource& source_;
  int64_t batches_;
};

}  // namespace genesis
