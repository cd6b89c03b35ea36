// Runs a loop's body as a plan inside a step of another plan, on the host. A runner makes a LoopRun for each loop among its steps; both have
// the same states and constants, and everything else that the body needs is scratch memory of the step.
#pragma once

#include <exception>
#include <memory>

#include "backends/loop_body.h"
#include "executor/runtime/loop_places.h"

namespace genesis {

class LoopRun final : public LoopBody {
 public:
  // `loop` and `body` must outlive this object; `runner` runs the body.
  LoopRun(const Step& loop, const Plan& body, std::unique_ptr<Runner> runner);

  // Sets the addresses, as place_loop() takes them. If only inputs of the plan around the loop have moved, bind_inputs() is enough.
  void bind(const PlanMemory& memory, std::byte* scratch);
  void bind_inputs(const PlanMemory& memory, std::byte* scratch);
  void run(const KernelContext& c) const override;
  // Throws the error of the last run, if a step of it failed; else returns.
  void rethrow() const;

 private:
  void run_steps(const KernelContext& c) const;

  const Step& loop_;
  const Plan& body_;
  const std::unique_ptr<Runner> runner_;
  LoopPlaces at_;
  mutable std::exception_ptr failure_;
};

}  // namespace genesis
