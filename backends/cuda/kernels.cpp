#include "backends/cuda/kernels.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "backends/cuda/gemm_list.h"
#include "backends/cuda/runtime/chips.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/implementation_list.h"
#include "backends/kernel_table.h"
#include "backends/plugin_kernels.h"

namespace genesis::cuda {

// Declares one function per file in backends/cuda/kernels, named after the file: the build's list of files is the
// list of kernels.
#define GENESIS_KERNEL_FILE(file) std::span<const OpKernel> file##_kernels();
#include "backends/cuda/kernel_files.inc"
#undef GENESIS_KERNEL_FILE

namespace {

const KernelTable& table() {
#define GENESIS_KERNEL_FILE(file) file##_kernels(),
  static const KernelTable table({
#include "backends/cuda/kernel_files.inc"
  });
#undef GENESIS_KERNEL_FILE
  return table;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names = table().names();
  std::ranges::copy(names_of_implementations("gemm", gemm_implementations()), std::back_inserter(names));
  std::ranges::copy(plugin_kernel_names(PluginDevice::kCuda), std::back_inserter(names));
  return names;
}

}  // namespace

// Plugins read the stream of a launch by its place (gpu_stream() in executor/plugin.h).
static_assert(offsetof(Launch, stream) == 0);

std::span<const KernelImpl> kernels_for(std::string_view op) {
  return with_plugin_kernels(PluginDevice::kCuda, op, table().find(op));
}

Target cuda_target(int device) {
  Target target;
  target.device = "cuda:" + std::to_string(device);
  target.alignment = 256;
  target.launch_seconds = 1e-6;  // roughly, in a captured graph
  const PlannedChip chip = planned_chip(device);
  target.bytes_per_second = chip.bytes_per_second;
  target.flops_per_second = chip.flops_per_second;
  target.exchanged_per_second = 3e11;
  target.exchange_seconds = 5e-6;
  target.prefers_weight_halves = true;
  target.kernel_names = kernel_names;
  target.choose = [](const KernelQuery& query) { return choose_kernel(kernels_for(query.op.name()), query); };
  target.can_run = [](const KernelQuery& query) { return why_not(kernels_for(query.op.name()), query); };
  target.is_native = [](const KernelQuery& query) { return is_native(kernels_for(query.op.name()), query); };
  target.scratch_bytes = [](const KernelQuery& query) {
    return scratch_bytes(kernels_for(query.op.name()), query);
  };
  return target;
}

}  // namespace genesis::cuda
