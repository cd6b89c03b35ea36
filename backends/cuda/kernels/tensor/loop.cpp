// loop: no GPU runs one yet, since the host would have to read the condition after each step of a run that is captured as a whole.
#include "backends/cuda/moves/moves.h"

namespace genesis::cuda {
namespace {

void run_no_loop(const KernelContext&) {}

std::optional<std::string> only_on_the_host(const KernelQuery&) {
  return "a loop whose number of steps depends on data runs on the CPU only: use --device cpu";
}

constexpr OpKernel kKernels[] = {{"loop", {.name = "body", .run = run_no_loop, .can_run = only_on_the_host}}};

}  // namespace

std::span<const OpKernel> loop_kernels() { return kKernels; }

}  // namespace genesis::cuda
