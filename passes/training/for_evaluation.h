// Gives the layers of a training graph the form that they have in evaluation, as PyTorch's model.eval() does. Export to ONNX uses it for
// programs that were exported while they trained.
#pragma once

#include "schema/graph/model.h"

namespace genesis::passes {

struct ForEvaluation {
  Graph graph;
  int64_t batch_norms = 0, dropouts = 0;  // the number of those that have another form now
};

// Returns the graph in which batch norms that update running statistics use these and leave them as they are, and dropout does nothing.
// A batch norm without running statistics stays as it is.
ForEvaluation for_evaluation(const Graph& graph);

}  // namespace genesis::passes
