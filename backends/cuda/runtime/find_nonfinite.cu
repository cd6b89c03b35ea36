// A number is not finite if all bits of its exponent are set.
#include "backends/cuda/runtime/find_nonfinite.h"

#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    find_exponent(const Bits* x, int64_t n, Bits exponent, unsigned long long* first) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride) {
    if ((x[i] & exponent) != exponent) continue;
    atomicMin(first, static_cast<unsigned long long>(i));
    return;  // later elements of this thread have greater indices
  }
}

template <class Bits>
void start_find(cudaStream_t stream, const TensorView& view, Bits exponent, uint64_t* first) {
  const int64_t n = view.numel(), blocks = std::min<int64_t>(blocks_for(n, kThreads), 4096);
  find_exponent<Bits><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      view.as<const Bits>(), n, exponent, reinterpret_cast<unsigned long long*>(first));
}

}  // namespace

void find_nonfinite(cudaStream_t stream, const TensorView& view, uint64_t* first) {
  cudaMemsetAsync(first, 0xff, sizeof *first, stream);
  if (!is_float(view.dtype) || view.numel() == 0) return;
  switch (view.dtype) {
    case DType::f64:
      return start_find<uint64_t>(stream, view, 0x7ff0000000000000u, first);
    case DType::f16:
      return start_find<uint16_t>(stream, view, 0x7c00, first);
    case DType::bf16:
      return start_find<uint16_t>(stream, view, 0x7f80, first);
    default:
      return start_find<uint32_t>(stream, view, 0x7f800000u, first);
  }
}

}  // namespace genesis::cuda
