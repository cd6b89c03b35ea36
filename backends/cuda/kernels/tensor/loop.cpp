// loop: the runner captures the body as a conditional node.
#include "backends/cuda/moves/moves.h"
#include "backends/loop_body.h"

namespace genesis::cuda {
namespace {

constexpr OpKernel kKernels[] = {{"loop", {.name = "body", .run = run_loop_body}}};

}  // namespace

std::span<const OpKernel> loop_kernels() { return kKernels; }

}  // namespace genesis::cuda
