// What the entry point of the loss gives beside the number to minimise, such as an accuracy: the training step and the evaluation
// give it too, under the same names. Used by train_step.cpp and evaluation.cpp.
//
// A batch may be computed in parts, as micro-batches and by ranks along "data". How a value of the whole batch follows
// from its parts is decided by its type:
//
//   [batch, ...]       with the leading size of the first input: the micro-batches one after the other; each rank has its own rows
//   real numbers       the mean of the parts
//   whole numbers      their sum: counts, such as that of right answers
//   boolean            whether it is true in any part
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/core/inline_graph.h"
#include "passes/training/train_options.h"

namespace genesis::passes {

// The names of the outputs that options.outputs chooses, without options.output, in their order. An output with a name that
// training steps and evaluations give to an output of their own is left out. Throws Error naming a pattern that names no output, and one
// that names just such an output.
std::vector<std::string> further_outputs(const Graph& loss, const TrainOptions& options);

class StepOutputs {
 public:
  // Warns of outputs that are left out because of their names.
  StepOutputs(const Graph& loss, const TrainOptions& options);

  // The values of the next micro-batch.
  void add(const InlinedGraph& part);
  // Real numbers, of which the ranks along "data" have to take the mean.
  std::vector<Value*> means();
  // Behind the last micro-batch: adds all to the graph, those that ranks count as sums over the ranks.
  void add_to(Graph& graph) const;

 private:
  enum class Kind : uint8_t { kRows, kMean, kSum, kAny };
  struct Output {
    std::string name;
    Kind kind;
    std::vector<Value> rows;  // of the micro-batches, where they are kRows
    Value value;              // of those so far, otherwise
  };

  std::vector<Output> outputs_;
  double share_;  // of one micro-batch
};

}  // namespace genesis::passes
