// Adds the further outputs of the loss's entry point, such as an accuracy, to the training step and the evaluation, under the
// same names.
//
// A batch may be computed in several runs, as micro-batches and by ranks along "data". The type of an output decides how its
// value for the whole batch is computed from the values of these runs:
//
//   [batch, ...]    whose first dimension has the size of that of the first input: the values are concatenated over the
//                   micro-batches; each rank keeps its own rows
//   floating point  their mean
//   integers        their sum: counts, such as that of correct answers
//   booleans        whether any of them is true
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/core/inline_graph.h"
#include "passes/training/train_options.h"

namespace genesis::passes {

// Returns the names of the outputs of `loss` that match the patterns of options.outputs, in their order. Leaves out
// options.output, which is the loss, and names that training steps or evaluations use for outputs of their own. Throws Error for
// a pattern that matches no output, and for a pattern that is exactly one of these reserved names.
std::vector<std::string> further_outputs(const Graph& loss, const TrainOptions& options);

class StepOutputs {
 public:
  // Warns of outputs that are left out because of their names, except for a second name "loss" of the value to minimize.
  StepOutputs(const Graph& loss, const TrainOptions& options);

  // Adds the values of the next micro-batch, given the graph of the loss inlined for it.
  void add(const InlinedGraph& micro_batch);
  // Returns the floating-point values, which must still be averaged over the ranks along "data".
  std::vector<Value*> means();
  // Adds all outputs to the graph after the last micro-batch; counts and booleans are summed over the ranks here.
  void add_to(Graph& graph) const;

 private:
  enum class Kind : uint8_t { kRows, kMean, kSum, kAny };
  struct Output {
    std::string name;
    Kind kind;
    std::vector<Value> rows;  // for kRows: the values of the micro-batches
    Value value;              // for other kinds: the value over the micro-batches so far
  };

  std::vector<Output> outputs_;
  double share_;  // weight of one micro-batch in a mean
};

}  // namespace genesis::passes
