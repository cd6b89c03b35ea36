// Every elementwise op on a GPU, including cast, and `fused`: one generated kernel per program (fused_source.h),
// compiled when a plan's steps are created. A node of an elementwise op is a program of one op, so a new elementwise
// op needs its formula (schema/ops/elementwise/formulas.h) and nothing here.
#include <array>

#include "backends/cuda/codegen/fused_source.h"
#include "backends/cuda/codegen/nvrtc.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/fused.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  std::shared_ptr<const LoadedCode> code;
  const void* packed = nullptr;
  const void* single = nullptr;
  int64_t items = 0;
  unsigned blocks = 0, threads = 0;
};

FusedProgram program_of(const KernelQuery& query) {
  return is<ops::Fused>(query.op)
             ? parse_fused_program(from_attributes<ops::Fused>(query.attributes), query.inputs)
             : single_op_program(query.op, query.attributes, query.inputs);
}

std::optional<std::string> can_run(const KernelQuery& query) {
  try {
    plan_fused(program_of(query));
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

std::shared_ptr<const void> prepare_device_elementwise(const KernelQuery& query) {
  const FusedProgram program = program_of(query);
  const FusedPlan plan = plan_fused(program);
  auto made = std::make_shared<Prepared>();
  made->items = plan.items;
  made->blocks = static_cast<unsigned>(plan.blocks);
  made->threads = static_cast<unsigned>(plan.threads);
  if (plan.blocks == 0) return made;
  made->code = load(fused_source(program, plan));
  made->packed = made->code->kernel("packed");
  made->single = plan.pack > 1 ? made->code->kernel("single") : made->packed;
  return made;
}

void run_device_elementwise(const KernelContext& c) {
  const auto& kernel = c.prepared<Prepared>();
  if (kernel.blocks == 0) return;
  std::array<void*, kMaxFusedPointers> addresses;
  size_t count = std::max<size_t>(1, c.inputs.size());
  for (size_t i = 0; i < c.inputs.size(); ++i) addresses[i] = c.inputs[i].data;
  for (const TensorView& output : c.outputs) addresses[count++] = output.data;
  int64_t items = kernel.items;
  FaultReport fault = launch_of(c).fault;
  void* parameters[] = {addresses.data(), &items, &fault};
  const Launch& launch = launch_of(c);
  const PdlLaunch early(launch, kernel.blocks, kernel.threads, 0);
  cudaLaunchKernelExC(&early.config, aligned_to_packs(c) ? kernel.packed : kernel.single,
                      parameters);  // the runner checks for errors
}

constexpr KernelImpl kGenerated = {.name = "generated",
                                   .run = run_device_elementwise,
                                   .can_run = can_run,
                                   .prepare = prepare_device_elementwise};

}  // namespace

std::span<const OpKernel> elementwise_kernels() {
  static const std::vector<OpKernel> rows = [] {
    std::vector<OpKernel> table = {{ops::Fused::info.name, kGenerated}};
    for (const OpDef* op : all_ops())
      if (op->info.elementwise) table.push_back({op->name(), kGenerated});
    return table;
  }();
  return rows;
}

}  // namespace genesis::cuda
