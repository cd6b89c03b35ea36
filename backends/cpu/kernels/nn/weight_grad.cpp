// linear_weight_grad on the CPU: the two nodes it stands for. dy has left the cache between them, so there is
// nothing to gain; graphs made for another device run here too.
#include "backends/common/weight_gradient.h"
#include "backends/cpu/kernels.h"

namespace genesis::cpu {
namespace {

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  return std::make_shared<const WeightGradientParts>(kernels_for, true, query);
}

int64_t scratch_bytes(const KernelQuery& query) {
  return WeightGradientParts(kernels_for, false, query).scratch_bytes();
}

void run(const KernelContext& c) { c.prepared<WeightGradientParts>().run(c); }

constexpr KernelImpl kWeightGrad[] = {
    {.name = "parts", .run = run, .scratch_bytes = scratch_bytes, .prepare = prepare}};
constexpr OpKernels kKernels[] = {{"linear_weight_grad", kWeightGrad}};

}  // namespace

std::span<const OpKernels> weight_grad_kernels() { return kKernels; }

}  // namespace genesis::cpu
