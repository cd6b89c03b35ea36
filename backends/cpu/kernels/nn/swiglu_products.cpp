// linear_with_swiglu and matmul_swiglu_grad on the CPU: the two nodes each stands for. Graphs made for
// another device run here.
#include "backends/common/swiglu_parts.h"
#include "backends/cpu/kernels.h"

namespace genesis::cpu {
namespace {

template <class Parts>
std::shared_ptr<const void> prepare(const KernelQuery& query) {
  return std::make_shared<const Parts>(kernels_for, true, query);
}

template <class Parts>
int64_t scratch_bytes(const KernelQuery& query) {
  return Parts(kernels_for, false, query).scratch_bytes();
}

template <class Parts>
void run(const KernelContext& c) {
  c.prepared<Parts>().run(c);
}

template <class Parts>
constexpr KernelImpl kInParts[] = {{.name = "in_parts",
                                    .run = run<Parts>,
                                    .scratch_bytes = scratch_bytes<Parts>,
                                    .prepare = prepare<Parts>}};
constexpr OpKernels kKernels[] = {{"linear_with_swiglu", kInParts<LinearWithSwigluParts>},
                                  {"matmul_swiglu_grad", kInParts<MatmulSwigluGradParts>}};

}  // namespace

std::span<const OpKernels> swiglu_products_kernels() { return kKernels; }

}  // namespace genesis::cpu
