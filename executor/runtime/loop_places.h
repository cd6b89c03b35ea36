// The addresses of a loop, and the copies between its steps, for the runners of all devices.
//
// While a loop runs, its results hold the carried values: operands are copied there before the first step, each step reads them there, and what
// the step makes of them is copied there behind it. So a body has the same addresses in all steps, and can be captured.
#pragma once

#include <limits>
#include <vector>

#include "executor/runtime/runner.h"

namespace genesis {

// Returns the plan of a loop's body. Throws Error if the plan does not have it.
const Plan& body_of(const Plan& plan, const Step& loop);

struct LoopPlaces {
  struct Move {
    std::byte* to;
    const std::byte* from;
    int64_t bytes;
    bool is_row = false;  // step n writes n * bytes behind `to`
  };

  PlanMemory body;                       // the memory of the body's plan
  std::byte* number = nullptr;           // i64[]: the number of the step, which the body reads
  const std::byte* condition = nullptr;  // bool[]: of the first step
  const std::byte* most = nullptr;       // i64[]: the most steps
  const std::byte* goes_on = nullptr;    // bool[]: another step follows, as a step says
  std::byte* count = nullptr;            // i64[]: the steps that ran; null if the loop collects nothing
  int64_t rows = std::numeric_limits<int64_t>::max();  // the most rows that it collects
  std::vector<Move> before;                            // before the first step
  // Copies after each step: `kept` first (rows, and results that `carried` would overwrite), then `carried`.
  std::vector<Move> kept, carried;
};

// `memory` is that of the plan around the loop, `scratch` the scratch memory of the loop's step.
LoopPlaces place_loop(const Step& loop, const Plan& body, const PlanMemory& memory, std::byte* scratch);

}  // namespace genesis
