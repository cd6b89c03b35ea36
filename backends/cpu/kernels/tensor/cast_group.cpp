// cast_group: converts many tensors, each into its place in a result. A backend on which starting a step is cheap does not group
// casts, so this is plain code: inputs are converted one after the other, each split by its shape.
#include "schema/ops/tensor/cast_group.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"

namespace genesis::cpu {
namespace {

template <class X, class Y>
void convert(const X* x, Y* y, int64_t n) {
  parallel_rows(n, sizeof(X) + sizeof(Y), [=](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) y[i] = static_cast<Y>(x[i]);
  });
}

template <class Body>
void with_real(DType dtype, const Body& body) {
  dispatch(dtype, [&](auto tag) {
    if constexpr (dtype_of<typename decltype(tag)::type>() <= DType::bf16) body(tag);  // same as is_float
  });
}

void run_cast_group(const KernelContext& c) {
  const auto& op = c.attributes<ops::CastGroup>();
  with_real(op.dtype, [&]<class Y>(TypeTag<Y>) {
    int input = 0;
    for (size_t i = 0; i < op.parts.size(); ++i) {
      Y* y = c.outputs[i].as<Y>();
      for (int64_t part = 0; part < op.parts[i]; ++part) {
        const TensorView& x = c.input(input++);
        with_real(x.dtype, [&](auto from) { convert(x.as<typename decltype(from)::type>(), y, x.numel()); });
        y += x.numel();
      }
    }
  });
}

constexpr OpKernel kKernels[] = {{"cast_group", {.name = "one_by_one", .run = run_cast_group}}};

}  // namespace

std::span<const OpKernel> cast_group_kernels() { return kKernels; }

}  // namespace genesis::cpu
