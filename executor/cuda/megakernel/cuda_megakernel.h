// One planned megakernel (cuda_megakernel_plan.h) on a GPU: its program in device memory, bound to the plan's addresses, and the
// launch of the kernel (backends/cuda/decode/megakernel.h). The runner sees it only as JoinedSteps.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/decode/megakernel.h"
#include "executor/cuda/joined_steps.h"
#include "executor/cuda/megakernel/cuda_megakernel_plan.h"

namespace genesis {

class CudaMegakernel final : public JoinedSteps {
 public:
  // The device must be current in the calling thread.
  CudaMegakernel(MegakernelPlan megakernel, int device);

  // Returns false if addresses are not aligned as the kernel needs, or if its shared memory is too small for the weights.
  bool load(std::span<const StepCall> calls, const cuda::Launch& launch) override;
  void start(const cuda::Launch& launch) const override;
  void begin_run() override;
  std::vector<size_t> under_way() const override;

 private:
  void describe(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                std::vector<cuda::Instruction>& steps);
  void take_norm(int norm, std::span<const StepCall> calls, const void*& weight, float& eps) const;
  void describe_product(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                        cuda::Instruction& step) const;
  void describe_mixture(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                        cuda::Instruction& gate_up, cuda::Instruction& down) const;
  void describe_attention(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                          cuda::Instruction& step);
  cuda::VectorOperand vector(const OperandSource& source, const void* memory) const;

  MegakernelPlan plan_;
  int blocks_;
  std::shared_ptr<std::byte> words_, split_words_, between_, instructions_, run_, counter_;
  std::vector<size_t> plan_steps_;  // by instruction of the program
  cuda::MegakernelProgram program_;
};

}  // namespace genesis
