// loop: the runner runs the plan of its body.
#include "schema/ops/tensor/loop.h"

#include "backends/cpu/kernels.h"
#include "backends/loop_body.h"

namespace genesis::cpu {
namespace {

constexpr OpKernel kKernels[] = {{"loop", {.name = "body", .run = run_loop_body}}};

}  // namespace

std::span<const OpKernel> loop_kernels() { return kKernels; }

}  // namespace genesis::cpu
