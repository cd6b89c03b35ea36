// Makes models of one small entry point that nobody would write: any ops in any order with odd, empty and extreme
// sizes and attributes, always the same for the same choices. They have passed only the shape rules: loading,
// planning and running them must end in results or in genesis::Error.
#pragma once

#include "schema/graph/model.h"
#include "tests/fuzz/mutate.h"

namespace genesis::testing {

std::unique_ptr<Model> random_graph(Mutator& mutator);

// Returns a size for a symbol: mostly small, sometimes 0 or extreme.
int64_t random_size(Mutator& mutator, bool extreme);

}  // namespace genesis::testing
