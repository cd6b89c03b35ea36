// Reshape where it could not be a view: a copy.
#include "backends/common/moves/move_rules.h"
#include "backends/cpu/moves/run_moves.h"

namespace genesis::cpu {
namespace {

void run(const KernelContext& c) {
  if (c.input(0).data != c.output().data) run_moves(c);
}

constexpr KernelImpl kReshape[] = {{.name = "copy", .run = run, .prepare = prepare_reshape}};
constexpr OpKernels kKernels[] = {{"reshape", kReshape}};

}  // namespace

std::span<const OpKernels> reshape_kernels() { return kKernels; }

}  // namespace genesis::cpu
