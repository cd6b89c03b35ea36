#include "backends/cuda/convolution/one_pixel.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/convolution/window_epilogue.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace one_pixel {
namespace {

constexpr int kImages = 4;  // images whose sums a thread adds, so that it reads a weight once for them

template <class T>
struct Problem {
  const T *x, *weight;  // [images, in], [out, in]
  T* y;                 // [images, out]
  int images, in, out;
  WindowEpilogue<T> epilogue;
};

// kShare threads share the terms of an output channel and read N of them at a time.
template <class T, int N, int kShare>
__global__ void __launch_bounds__(kThreads) one_pixel_kernel(const __grid_constant__ Problem<T> p) {
  begin_in_order();
  const int out = static_cast<int>(blockIdx.x * (kThreads / kShare) + threadIdx.x / kShare),
            lane = static_cast<int>(threadIdx.x) % kShare, first = static_cast<int>(blockIdx.y) * kImages;
  // Threads behind the last channel repeat it, so that all lanes take part.
  const int row = min(out, p.out - 1);
  float sums[kImages] = {};
#pragma unroll 2
  for (int i = lane * N; i < p.in; i += kShare * N) {
    const auto weight = *reinterpret_cast<const Pack<T, N>*>(p.weight + int64_t{row} * p.in + i);
#pragma unroll
    for (int m = 0; m < kImages; ++m) {
      const int image = min(first + m, p.images - 1);
      const auto x = *reinterpret_cast<const Pack<T, N>*>(p.x + int64_t{image} * p.in + i);
#pragma unroll
      for (int j = 0; j < N; ++j) sums[m] += widen(x.at[j]) * widen(weight.at[j]);
    }
  }
  sum_neighbors<kShare>(sums);
#pragma unroll
  for (int m = 0; m < kImages; ++m)
    if (lane == m && out < p.out && first + m < p.images) {
      const int64_t at = int64_t{first + m} * p.out + out;
      p.y[at] = narrow<T>(p.epilogue(sums[m], at));
    }
}

template <class T, int N, int kShare>
void launch_lanes(const KernelContext& c, const Problem<T>& p) {
  const dim3 blocks(static_cast<unsigned>(blocks_for(p.out, kThreads / kShare)),
                    static_cast<unsigned>(blocks_for(p.images, kImages)));
  start_with_pdl(launch_of(c), one_pixel_kernel<T, N, kShare>, blocks, kThreads, 0, p);
}

template <class T, int N>
void launch_packs(const KernelContext& c, const Problem<T>& p) {
  constexpr int kFewTerms = 32;  // packs, of which each of few lanes has a few
  p.in <= kFewTerms* N ? launch_lanes<T, N, 8>(c, p) : launch_lanes<T, N, 32>(c, p);
}

template <class T>
void launch_type(const KernelContext& c, const ConvolutionShape& s) {
  WindowEpilogue<T> epilogue = window_epilogue<T>(c, s);
  epilogue.planes.last = true;  // one pixel has the same place in both layouts
  const Problem<T> p{c.input(0).as<const T>(),
                     c.input(1).as<const T>(),
                     c.output().as<T>(),
                     static_cast<int>(s.batch),
                     static_cast<int>(s.in()),
                     static_cast<int>(s.out()),
                     epilogue};
  const bool aligned = aligned_to_packs(c);
  if (aligned && p.in % 8 == 0) return launch_packs<T, 8>(c, p);
  aligned&& p.in % 2 == 0 ? launch_packs<T, 2>(c, p) : launch_packs<T, 1>(c, p);
}

void run_one_pixel(const KernelContext& c) {
  const auto& s = c.prepared<ConvolutionShape>();
  s.dtype == DType::bf16 ? launch_type<__nv_bfloat16>(c, s) : launch_type<__half>(c, s);
}

constexpr int64_t kMaxProducts = int64_t{1} << 26;  // from here on tensor cores gain

std::optional<std::string> one_pixel_declines(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (!is_low_precision(s.dtype)) return "takes bf16 and f16";
  if (s.groups != 1 || !std::ranges::all_of(s.windows.axis, is_single))
    return "takes windows of one element over one pixel, in one group";
  if (s.batch * s.in() * s.out() == 0) return "takes tensors with elements";
  if (s.batch > std::numeric_limits<uint16_t>::max() || checked_mul(s.batch * s.in(), s.out()) > kMaxProducts)
    return "takes few products";
  return std::nullopt;
}

}  // namespace
}  // namespace one_pixel

KernelImpl one_pixel_convolution() {
  return {.name = "one_pixel",
          .run = one_pixel::run_one_pixel,
          .can_run = one_pixel::one_pixel_declines,
          .prepare = prepare_convolution};
}

}  // namespace genesis::cuda
