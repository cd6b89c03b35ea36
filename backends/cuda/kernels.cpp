#include "backends/cuda/kernels.h"

#include "backends/cpu/kernels.h"
#include "backends/kernel_table.h"

namespace genesis::cuda {

// One function per file in backends/cuda/kernels, named after it: the build's list of files is the list of
// kernels.
#define GENESIS_KERNEL_FILE(file) std::span<const OpKernels> file##_kernels();
#include "backends/cuda/kernel_files.inc"
#undef GENESIS_KERNEL_FILE

std::span<const KernelImpl> kernels_for(std::string_view op) {
  static const KernelTable table = [] {
    KernelTable made;
#define GENESIS_KERNEL_FILE(file) made.add(file##_kernels());
#include "backends/cuda/kernel_files.inc"
#undef GENESIS_KERNEL_FILE
    return made;
  }();
  return table.find(op);
}

Target cuda_target(int device) {
  Target target;
  target.device = "cuda:" + std::to_string(device);
  target.alignment = 256;
  target.merge_linear_rows = 8;  // what one kernel takes, reading the weights once
  target.groups_small_work = true;
  target.splits_weights = true;
  target.can_run = [](const KernelQuery& query) { return why_not(kernels_for(query.op.name()), query); };
  target.scratch_bytes = [](const KernelQuery& query) {
    return scratch_bytes(kernels_for(query.op.name()), query);
  };
  target.evaluate = cpu::cpu_target().evaluate;  // constants are folded on the host
  return target;
}

}  // namespace genesis::cuda
