// A libFuzzer target that makes a graph from the fuzzer's bytes, loads, plans and runs it.
#include <cstdint>
#include <span>

#include "tests/fuzz/random_graph.h"
#include "tests/fuzz/try_run.h"
#include "tests/schema/file_models.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace genesis::testing;
  Mutator mutator(std::span(data, size));
  try_run(file_of(*random_graph(mutator)), mutator);
  return 0;
}
