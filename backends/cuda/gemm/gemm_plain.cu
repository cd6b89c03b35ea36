// The product that accepts every problem, in the tiles of plain_tile.h. Also activations after a library's product, and
// the noise that tuning runs on.
#include <algorithm>

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/plain_tile.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/gemm/gemm_plain.h"

namespace genesis::cuda {
namespace {

struct Tiles {
  int64_t m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, tiles_m, tiles_n;
  bool transpose_a, transpose_b;
  Activation activation;
};

// Not inlined, because a thread would have it for each of its 16 elements.
template <class W>
__device__ __noinline__ W finish(W x, Activation activation) {
  if constexpr (std::is_floating_point_v<W>)
    return activate(x, activation);
  else
    return x;
}

template <class T>
__device__ T narrowed(wide_t<T> x) {
  return narrow<T>(x);
}

template <class T, class Out>
__global__ void __launch_bounds__(kPlainThreads)
    multiply(Tiles t, const T* a, const T* b, Out* c, const T* bias, const Out* addend) {
  const int64_t tile = blockIdx.x, batch = tile / (t.tiles_m * t.tiles_n);
  c += batch * t.stride_c;
  const PlainMatrix<T> of_a{a + batch * t.stride_a, t.transpose_a ? 1 : t.lda, t.transpose_a ? t.lda : 1},
      of_b{b + batch * t.stride_b, t.transpose_b ? 1 : t.ldb, t.transpose_b ? t.ldb : 1};
  multiply_plain_tile<T>(of_a, of_b, t.m, t.n, t.k, tile / t.tiles_n % t.tiles_m * kPlainTile,
                         tile % t.tiles_n * kPlainTile, [&](int64_t row, int64_t column, wide_t<T> x) {
                           const int64_t at = row * t.ldc + column;
                           if (bias) x += widen(bias[column]);
                           x = finish(x, t.activation);
                           if (addend) x += widen(addend[batch * t.stride_c + at]);
                           c[at] = narrowed<Out>(static_cast<wide_t<Out>>(x));
                         });
}

template <class T, class Out>
void start_plain(const GemmProblem& p, const GemmData& d) {
  const int64_t tiles_m = (p.m + kPlainTile - 1) / kPlainTile, tiles_n = (p.n + kPlainTile - 1) / kPlainTile;
  const int64_t blocks = p.batch * tiles_m * tiles_n;
  if (blocks == 0) return;
  const Tiles tiles{p.m,        p.n,        p.k,     p.lda,   p.ldb,         p.ldc,         p.stride_a,
                    p.stride_b, p.stride_c, tiles_m, tiles_n, p.transpose_a, p.transpose_b, p.activation};
  multiply<T, Out><<<static_cast<unsigned>(blocks), kPlainThreads, 0, d.stream>>>(
      tiles, static_cast<const T*>(d.a), static_cast<const T*>(d.b), static_cast<Out*>(d.c),
      p.has_bias ? static_cast<const T*>(d.bias) : nullptr, static_cast<const Out*>(addend_of(p, d)));
}

// bool has no products.
template <class Body>
void dispatch_number(DType dtype, const Body& body) {
  if (dtype != DType::boolean)
    dispatch_any(dtype, [&](auto tag) {
      if constexpr (!std::is_same_v<typename decltype(tag)::type, bool>) body(tag);
    });
}

template <class T>
__global__ void noise(T* data, int64_t elements) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += stride) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(i >> 32);
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    data[i] = narrow<T>(static_cast<wide_t<T>>(static_cast<float>(static_cast<int32_t>(h)) * 4.6566129e-10f));
  }
}

unsigned some_blocks(int64_t items) {
  return static_cast<unsigned>(std::min<int64_t>((items + 255) / 256, 8192));
}

}  // namespace

void run_plain_gemm(const GemmProblem& p, const GemmData& d) {
  if (p.in != p.out) {
    if (p.in == DType::bf16) return start_plain<__nv_bfloat16, float>(p, d);
    return start_plain<__half, float>(p, d);
  }
  dispatch_number(p.in, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start_plain<T, T>(p, d);
  });
}

void fill_with_noise(void* data, DType dtype, int64_t elements, cudaStream_t stream) {
  if (elements == 0) return;
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    noise<T><<<some_blocks(elements), 256, 0, stream>>>(static_cast<T*>(data), elements);
  });
}

}  // namespace genesis::cuda
