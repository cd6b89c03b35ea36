// Models of one small entry point that nobody would write: any ops in any order with odd, empty and extreme
// sizes and attributes, the same for the same choices. What it makes has passed the shape rules and nothing
// else: loading, planning and running it must end in results or in genesis::Error. Used by the graph fuzzer
// and its test.
#pragma once

#include "schema/graph/model.h"
#include "tests/fuzz/mutate.h"

namespace genesis::testing {

std::unique_ptr<Model> random_graph(Mutator& mutator);

// A size that a symbol may be bound to: mostly small, sometimes 0 or extreme.
int64_t random_size(Mutator& mutator, bool extreme);

}  // namespace genesis::testing
