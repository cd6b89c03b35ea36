// A loop whose number of steps depends on data. Another entry point of the model is its body (schema/graph/bodies.h), which the executor
// runs as a plan of its own, in memory that is scratch memory of the loop's step. There is no gradient.
#pragma once

#include <array>

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// Inputs: the condition of the first step, bool[]; the most steps, i64[]; `carried` values; then values that the body reads and that stay.
// Outputs: the carried values after the last step. Step n = 0, 1, ... runs while n is below the most steps and the condition is true.
struct Loop {
  static constexpr OpInfo info{
      .name = "loop",
      .doc =
          "Runs the entry point `entry` while a condition is true, at most a number of "
          "steps. Inputs: the condition, the most steps, `carried` values, and values "
          "that all steps read. Results: the carried values after the last step.",
      .inputs = {3, kVariadic},
      .precision = Precision::kF32};
  std::string entry;
  int64_t carried = 1;
  static void fields(auto& self, auto&& visit) { visit("carried", self.carried), visit("entry", self.entry); }
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// Returns the carried values after the last step. The entry point need not exist yet.
std::vector<Value> loop(const std::string& entry, Value condition, Value most_steps,
                        const std::vector<Value>& carried, const std::vector<Value>& read = {});

// The scratch memory of a loop, as offsets in bytes: the number of the step, two places for each carried value, of which a step reads one
// and writes the other, and the arena of the body's plan.
struct LoopMemory {
  int64_t step = 0;
  std::array<std::vector<int64_t>, 2> carried;
  int64_t arena = 0, bytes = 0;
};
// `carried` are the types of the loop's results, with known sizes.
LoopMemory loop_memory(int64_t arena_bytes, Types carried);

}  // namespace genesis
