// A node on operands of its own, filled with noise, to choose among several ways to run it by their time.
#pragma once

#include "backends/cuda/runtime/stopwatch.h"
#include "backends/kernel.h"

namespace genesis::cuda {

class Trial {
 public:
  // Takes device memory for the node's inputs, outputs and scratch while it lives. With too little memory nothing is measured.
  Trial(const KernelQuery& query, int64_t scratch_bytes);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Returns the milliseconds of `start`, which starts the node and returns whether it could, or infinity.
  float ms(const std::function<bool(const KernelContext&)>& start, float best);

 private:
  struct State;
  std::unique_ptr<State> state_;  // null: there is too little memory
};

}  // namespace genesis::cuda
