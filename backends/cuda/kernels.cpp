#include "backends/cuda/kernels.h"

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

constexpr std::string_view kOnePassOps[] = {"linear_weight_grad", "linear_with_swiglu", "matmul_swiglu_grad"};

Target cuda_target(int device) {
  Target target;
  target.device = "cuda:" + std::to_string(device);
  target.alignment = 256;
  target.merge_linear_rows = 8;  // what one kernel takes, reading the weights once
  target.launch_seconds = 1e-6;  // in a captured graph, about
  target.one_pass_ops = kOnePassOps;
  target.splits_weights = true;
  target.can_run = [](const KernelQuery& query) { return why_not(kernels_for(query.op.name()), query); };
  target.scratch_bytes = [](const KernelQuery& query) {
    return scratch_bytes(kernels_for(query.op.name()), query);
  };
  return target;
}

}  // namespace genesis::cuda
