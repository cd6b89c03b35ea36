// The body of a loop as kernels see it. The runner of the loop's plan makes one for each step that is a loop and gives it to the kernel as
// KernelContext::prepared_ptr: kernels know no plans.
#pragma once

#include "backends/kernel.h"

namespace genesis {

class LoopBody {
 public:
  virtual ~LoopBody() = default;
  // Runs the steps of the loop, on a GPU behind the work of the launch's stream. The operands and results of `c` are those of ops::Loop.
  // Reports a fault if a step has failed.
  virtual void run(const KernelContext& c) const = 0;
};

inline void run_loop_body(const KernelContext& c) { c.prepared<LoopBody>().run(c); }

}  // namespace genesis
