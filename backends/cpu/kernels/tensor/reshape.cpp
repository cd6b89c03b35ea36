// A reshape that could not be a view: a copy.
#include "backends/common/moves/move_rules.h"
#include "backends/cpu/moves/run_moves.h"

namespace genesis::cpu {
namespace {

void run_reshape(const KernelContext& c) {
  if (c.input(0).data != c.output().data) run_moves(c);
}

constexpr OpKernel kKernels[] = {
    {"reshape", {.name = "copy", .run = run_reshape, .prepare = prepare_reshape}}};

}  // namespace

std::span<const OpKernel> reshape_kernels() { return kKernels; }

}  // namespace genesis::cpu
