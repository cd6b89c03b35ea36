// What a run does every so many steps with data that it is not trained on: the mean loss, whether that is the best so far,
// and what a schedule makes of it. Used by the trainer.
#pragma once

#include <map>
#include <string>

#include "executor/session.h"
#include "executor/training/batch_source.h"

namespace genesis {

struct Evaluation {
  double loss = 0;
  // These are the outputs of the loss's entry point beside the loss (passes/training/evaluation.h).
  std::map<std::string, double> outputs;
  int64_t since_best = 0;  // evaluations since the least loss; 0: this is it
};

class Evaluator {
 public:
  // The model has passes::add_evaluation()'s entry points. `batches` from the beginning of the source; 0: once through
  // it. Throws Error when the source has no end and `batches` is 0.
  Evaluator(Session& session, BatchSource& source, int64_t batches);
  // Between two steps. Also tells the schedule `plateau`, where the model has it.
  Evaluation run();

 private:
  Evaluation over_data();

  Session& session_;
  BatchSource& source_;
  int64_t batches_;
};

}  // namespace genesis
