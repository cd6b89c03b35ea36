#include "backends/cpu/kernels.h"

#include <algorithm>
#include <iterator>

#include "backends/cpu/gemm/gemm.h"
#include "backends/implementation_list.h"
#include "backends/kernel_table.h"
#include "backends/plugin_kernels.h"
#include "schema/core/error.h"

namespace genesis::cpu {

// Each file in backends/cpu/kernels defines one function that is named after it. The build generates kernel_files.inc from the
// list of files.
#define GENESIS_KERNEL_FILE(file) std::span<const OpKernel> file##_kernels();
#include "backends/cpu/kernel_files.inc"
#undef GENESIS_KERNEL_FILE

namespace {

std::optional<std::string> can_run(const KernelQuery& query) {
  return why_not(kernels_for(query.op.name()), query);
}

int64_t scratch_bytes(const KernelQuery& query) {
  return genesis::scratch_bytes(kernels_for(query.op.name()), query);
}

std::optional<std::vector<Tensor>> evaluate(const KernelQuery& query, std::span<const Tensor> inputs) {
  if (can_run(query)) return std::nullopt;
  const KernelImpl& kernel = select_kernel(kernels_for(query.op.name()), query);
  std::vector<TensorView> in, out;
  std::vector<Tensor> results;
  for (const Tensor& tensor : inputs)
    in.push_back(view_of(tensor.type(), const_cast<std::byte*>(tensor.data())));
  for (const TensorType& type : query.outputs) {
    std::byte* data;
    results.push_back(Tensor::uninitialized(type, &data));
    out.push_back(view_of(type, data));
  }
  std::byte* scratch;
  const Tensor scratch_owner = Tensor::uninitialized({DType::u8, {scratch_bytes(query)}}, &scratch);
  const auto attributes = query.op.parse(query.attributes);
  const auto prepared = kernel.prepare ? kernel.prepare(query) : nullptr;
  Fault fault;
  kernel.run({.inputs = in,
              .outputs = out,
              .attributes_ptr = attributes.get(),
              .prepared_ptr = prepared.get(),
              .scratch = scratch,
              .fault = &fault});
  if (fault.set) return std::nullopt;
  return results;
}

const KernelTable& table() {
#define GENESIS_KERNEL_FILE(file) file##_kernels(),
  static const KernelTable table({
#include "backends/cpu/kernel_files.inc"
  });
#undef GENESIS_KERNEL_FILE
  return table;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names = table().names();
  std::ranges::copy(names_of_implementations("gemm", gemm_implementations()), std::back_inserter(names));
  std::ranges::copy(plugin_kernel_names(PluginDevice::kCpu), std::back_inserter(names));
  return names;
}

}  // namespace

std::span<const KernelImpl> kernels_for(std::string_view op) {
  return with_plugin_kernels(PluginDevice::kCpu, op, table().find(op));
}

Target cpu_target() {
  Target target;
  target.adds_in_f32 = true;
  target.kernel_names = kernel_names;
  target.choose = [](const KernelQuery& query) { return choose_kernel(kernels_for(query.op.name()), query); };
  target.can_run = can_run;
  target.is_native = [](const KernelQuery& query) {
    return genesis::is_native(kernels_for(query.op.name()), query);
  };
  target.scratch_bytes = scratch_bytes;
  target.evaluate = evaluate;
  return target;
}

}  // namespace genesis::cpu
