// A chain of a plan (executor/cuda_step_chains.h) on a GPU: its program in device memory, and the kernel that
// runs it (backends/cuda/step_chain.h). Used by cuda_runner.cpp.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/step_chain.h"
#include "executor/cuda_step_chains.h"
#include "executor/step_call.h"

namespace genesis {

class CudaChain {
 public:
  // The device must be current in the calling thread.
  CudaChain(StepChain chain, int device);

  // Takes the addresses that the calls of the plan are bound to; the program is there behind what the stream
  // does. False where they are not aligned as the kernel wants them, or its memory is too small for the
  // weights: the steps run one by one then.
  bool load(std::span<const StepCall> calls, cudaStream_t stream);
  // `launch`: of the chain's first step, whose report a bad start goes into.
  void start(const cuda::Launch& launch) const;

  // Before a run, when none goes on.
  void begin_run();
  // Steps that a run which failed in the chain was in, or beside.
  std::vector<size_t> under_way() const;

  size_t first() const { return chain_.first(); }
  size_t end() const { return chain_.end(); }

 private:
  cuda::ChainStep describe(const ChainLink& link, std::span<const StepCall> calls);
  void describe_product(const ChainLink& link, const StepCall& call, cuda::ChainStep& step) const;
  void describe_attention(const ChainLink& link, std::span<const StepCall> calls, cuda::ChainStep& step);
  cuda::ChainVector vector(const ChainSource& source, const void* memory) const;

  StepChain chain_;
  int blocks_;
  std::shared_ptr<std::byte> words_, split_words_, steps_, run_, place_;
  std::vector<size_t> plan_steps_;  // by step of the program
  cuda::ChainProgram program_;
};

// The chains of a plan; none where the current device cannot run them.
std::vector<CudaChain> make_cuda_chains(const Plan& plan, int device);

}  // namespace genesis
