// cumsum by kernels that are generated for the sizes of the node (scan_source.h, scan_kit.h).
#include "backends/cuda/codegen/nvrtc.h"
#include "backends/cuda/codegen/scan_source.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  std::shared_ptr<const LoadedCode> code;
  const void* totals = nullptr;  // null if rows are not split
  const void* scan = nullptr;
  unsigned blocks = 0, threads = 0;
  int64_t items = 0;
};

ScanPlan plan_of(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  const int64_t axis = from_attributes<ops::CumSum>(query.attributes).axis;
  return plan_scan(x, normalize_axis(axis, std::max(x.shape.rank(), 1)));
}

std::optional<std::string> can_run(const KernelQuery& query) {
  if (plan_of(query).blocks() >= int64_t{1} << 31) return "a grid has 2^31 blocks at most";
  return std::nullopt;
}

std::shared_ptr<const void> prepare_device_scan(const KernelQuery& query) {
  const ScanPlan plan = plan_of(query);
  auto made = std::make_shared<Prepared>();
  made->blocks = static_cast<unsigned>(plan.blocks());
  made->threads = static_cast<unsigned>(plan.threads);
  made->items = plan.inner > 1 ? plan.outer * plan.inner : plan.outer;
  if (made->blocks == 0) return made;
  const bool reverse = from_attributes<ops::CumSum>(query.attributes).reverse;
  made->code = load(scan_source(plan, query.inputs[0].dtype, query.outputs[0].dtype, reverse));
  made->scan = made->code->kernel("scan");
  if (plan.pieces > 1) made->totals = made->code->kernel("totals");
  return made;
}

void run_device_scan(const KernelContext& c) {
  const auto& kernel = c.prepared<Prepared>();
  if (kernel.blocks == 0) return;
  void* buffers[] = {c.input(0).data, c.output().data, c.scratch};
  int64_t items = kernel.items;
  void* parameters[] = {buffers, &items};
  for (const void* part : {kernel.totals, kernel.scan})
    if (part)
      cudaLaunchKernel(part, dim3(kernel.blocks), dim3(kernel.threads), parameters, 0,
                       launch_of(c).stream);  // the runner checks for errors
}

constexpr OpKernel kOps[] = {
    {"cumsum",
     {.name = "generated",
      .run = run_device_scan,
      .can_run = can_run,
      .scratch_bytes = [](const KernelQuery& q) { return plan_of(q).scratch_bytes(); },
      .prepare = prepare_device_scan}}};

}  // namespace

std::span<const OpKernel> scan_kernels() { return kOps; }

}  // namespace genesis::cuda
