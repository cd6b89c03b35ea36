// norm_linear on the CPU: one step that starts the kernels of its parts.
#include "backends/common/norm_parts.h"
#include "backends/cpu/kernels.h"

namespace genesis::cpu {
namespace {

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  return std::make_shared<NormParts>(kernels_for, true, query);
}

int64_t scratch_bytes(const KernelQuery& query) { return NormParts(kernels_for, false, query).scratch_bytes(); }

void run(const KernelContext& c) { c.prepared<NormParts>().run(c); }

constexpr KernelImpl kNormLinear[] = {
    {.name = "in_parts", .run = run, .scratch_bytes = scratch_bytes, .prepare = prepare}};
constexpr OpKernels kKernels[] = {{"norm_linear", kNormLinear}};

}  // namespace

std::span<const OpKernels> norm_linear_kernels() { return kKernels; }

}  // namespace genesis::cpu
