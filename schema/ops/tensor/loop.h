// A loop whose number of steps depends on data. Another entry point of the model is its body (schema/graph/bodies.h), which the executor
// runs as a plan of its own, in memory that is scratch memory of the loop's step. There is no gradient.
#pragma once

#include <optional>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"

namespace genesis {
namespace ops {

// Inputs: the condition of the first step, bool[]; the most steps, i64[]; `carried` values; `collected` values [rows, ...] that become rows of
// what is collected; then values that the body reads and that stay. Outputs: the carried values after the last step; the collected values, whose
// row n is what step n gave and whose other rows stay as they came; if there are collected values, the number of steps that ran, i64[].
//
// Step n = 0, 1, ... runs while n is below the most steps and the condition is true. A run fails if the loop would take more steps than
// there are rows: rows are planned before a run, the number of steps depends on its data.
struct Loop {
  static constexpr OpInfo info{
      .name = "loop",
      .doc =
          "Runs the entry point `entry` while a condition is true, at most a number of "
          "steps. Inputs: the condition, the most steps, `carried` values, `collected` "
          "values [rows, ...], and values that all steps read. Results: the carried values "
          "after the last step, the collected values with a row of each step, and, if "
          "`collected` is not 0, the number of steps.",
      .inputs = {3, kVariadic},
      .precision = Precision::kF32};
  std::string entry;
  int64_t carried = 1, collected = 0;
  static void fields(auto& self, auto&& visit) {
    visit("carried", self.carried), visit("collected", self.collected), visit("entry", self.entry);
  }
  std::vector<TensorType> infer(Types in) const;
};

// The fault of a run whose loop would take more steps than there are rows.
inline constexpr const char* kMoreStepsThanRows =
    "the loop has taken as many steps as it has rows for what it collects, and goes on: "
    "give it more rows, an ONNX model by --set NODE.steps=1000, which names the node of the loop";

}  // namespace ops

// The operands of a loop, by their meaning.
struct LoopOperands {
  Value condition, most_steps;
  std::vector<Value> carried, collected = {}, read = {};
};

// Returns the results of a loop whose body is the entry point `entry`, which need not exist yet.
std::vector<Value> loop(const std::string& entry, const LoopOperands& operands);

// The scratch memory of a loop, as offsets in bytes: the arena of the body's plan, the number of the step, and places for results of a step
// that are inputs of its own, such as the two carried values of a body that swaps them: they would be overwritten before they are copied.
struct LoopMemory {
  int64_t arena = 0, number = 0, bytes = 0;
  std::vector<std::optional<int64_t>> aside;  // by carried value
};
LoopMemory loop_memory(const Plan& body, int64_t carried);

}  // namespace genesis
