// Runs a loop's body as a plan inside a step of another plan. A runner makes a LoopRun for each loop among its steps; both have the same
// states and constants, and everything else that the body needs is scratch memory of the step. On the host only.
#pragma once

#include <exception>
#include <memory>

#include "backends/loop_body.h"
#include "executor/runtime/runner.h"
#include "schema/ops/tensor/loop.h"

namespace genesis {

// Returns the plan of a loop's body. Throws Error if the plan does not have it.
const Plan& body_of(const Plan& plan, const Step& loop);

class LoopRun final : public LoopBody {
 public:
  // `body` must outlive this object; `runner` runs it.
  LoopRun(const Step& loop, const Plan& body, std::unique_ptr<Runner> runner);

  // Sets the addresses; `memory` is that of the plan around the loop, `scratch` the scratch memory of the loop's step.
  void bind(const PlanMemory& memory, std::byte* scratch);
  // Values that are carried from step to step are copied once a step, so that a body may give its inputs in another order.
  void run(const KernelContext& c) const override;
  // Throws the error of the step that failed in the last run.
  void rethrow() const { std::rethrow_exception(failure_); }

 private:
  void run_steps(const KernelContext& c) const;
  bool run_step(int64_t number, std::vector<std::byte*>& current) const;

  const Plan& body_;
  const size_t carried_;
  const LoopMemory at_;
  const std::unique_ptr<Runner> runner_;
  std::byte* scratch_ = nullptr;
  mutable PlanMemory memory_;  // only the inputs change while it runs
  mutable std::exception_ptr failure_;
};

}  // namespace genesis
