// One planned megakernel (cuda_megakernel_plan.h) on a GPU: its program in device memory, bound to the plan's
// addresses, and the launch of the kernel (backends/cuda/decode/megakernel.h). Used by cuda_runner.cpp.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/decode/megakernel.h"
#include "executor/cuda/cuda_megakernel_plan.h"
#include "executor/runtime/step_call.h"

namespace genesis {

class CudaMegakernel {
 public:
  // The device must be current in the calling thread.
  CudaMegakernel(MegakernelPlan megakernel, int device);

  // Takes the addresses that the calls of the plan are bound to; the program is there behind what the stream
  // does. False where they are not aligned as the kernel wants them, or its memory is too small for the
  // weights: the steps run one by one then.
  bool load(std::span<const StepCall> calls, cudaStream_t stream);
  // `launch`: of the megakernel's first step, whose report a bad start goes into.
  void start(const cuda::Launch& launch) const;

  // Before a run, when none goes on.
  void begin_run();
  // Steps that a run which failed in the megakernel was in, or beside.
  std::vector<size_t> under_way() const;

  size_t first() const { return plan_.first(); }
  size_t end() const { return plan_.end(); }

 private:
  cuda::Instruction describe(const PlannedInstruction& instruction, std::span<const StepCall> calls);
  void describe_product(const PlannedInstruction& instruction, const StepCall& call,
                        cuda::Instruction& step) const;
  void describe_attention(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                          cuda::Instruction& step);
  cuda::VectorOperand vector(const OperandSource& source, const void* memory) const;

  MegakernelPlan plan_;
  int blocks_;
  std::shared_ptr<std::byte> words_, split_words_, steps_, run_, place_;
  std::vector<size_t> plan_steps_;  // by step of the program
  cuda::MegakernelProgram program_;
};

// The megakernels of a plan; none where the current device cannot run them.
std::vector<CudaMegakernel> make_cuda_megakernels(const Plan& plan, int device);

}  // namespace genesis
