// Matrices in shared memory whose elements are sums of two bf16 (the value rounded, and what the rounding lost), and their products on
// tensor cores: high x high + high x low + low x high, which keeps 16 bits of f32 operands. The kernels of this folder use them.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/tensor_core.h"

namespace genesis::cuda::delta {

#ifdef __CUDACC__

// Two neighboring elements as words of two bf16.
struct SplitPair {
  uint32_t high, low;
};
__device__ __forceinline__ SplitPair split(float x, float y) {
  const uint32_t high = pair_of<__nv_bfloat16>(x, y);
  return {high, pair_of<__nv_bfloat16>(x - low_of<__nv_bfloat16>(high), y - high_of<__nv_bfloat16>(high))};
}

// The registers of an operand of 16 x 16 elements: of a in the order of multiply_16x8(), or b0 and b1 of two tiles of eight columns.
struct Fragment {
  uint32_t high[4], low[4];
};

// Rows of f32 in global memory; rows from `count` on are zeros.
struct RowsOfFloats {
  const float* first;
  int64_t stride;
  int count;

  __device__ float4 pack(int row, int column) const {
    return row < count ? *reinterpret_cast<const float4*>(first + row * stride + column)
                       : make_float4(0, 0, 0, 0);
  }
  __device__ float2 pair(int row, int column) const {
    return row < count ? *reinterpret_cast<const float2*>(first + row * stride + column) : make_float2(0, 0);
  }
};

// Asks the L2 cache for the line at an address of global memory.
__device__ __forceinline__ void prefetch_line(const float* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

template <class T, int kThreadsOfBlock>
struct TileLoads;

// A matrix in shared memory, in rows of `kStride` bytes, which put a column's packs of eight rows into different banks.
template <int kRows, int kColumns>
struct Tile {
  static constexpr int kStride = 2 * kColumns + 16, kPlane = kRows * kStride, kBytes = 2 * kPlane;
  static constexpr int kPacksOfRow = kColumns / 4, kPacks = kRows * kPacksOfRow;
  unsigned char* data;

  // Stores two neighboring elements; `column` is even.
  __device__ void put(int row, int column, float x, float y) const {
    const SplitPair pair = split(x, y);
    unsigned char* at = data + row * kStride + 2 * column;
    *reinterpret_cast<uint32_t*>(at) = pair.high;
    *reinterpret_cast<uint32_t*>(at + kPlane) = pair.low;
  }
  __device__ float2 get(int row, int column) const {
    const unsigned char* at = data + row * kStride + 2 * column;
    const uint32_t high = *reinterpret_cast<const uint32_t*>(at),
                   low = *reinterpret_cast<const uint32_t*>(at + kPlane);
    return {low_of<__nv_bfloat16>(high) + low_of<__nv_bfloat16>(low),
            high_of<__nv_bfloat16>(high) + high_of<__nv_bfloat16>(low)};
  }
  __device__ void put_pack(int row, int column, const float4& x) const {
    const SplitPair first = split(x.x, x.y), second = split(x.z, x.w);
    unsigned char* at = data + row * kStride + 2 * column;
    *reinterpret_cast<uint2*>(at) = make_uint2(first.high, second.high);
    *reinterpret_cast<uint2*>(at + kPlane) = make_uint2(first.low, second.low);
  }

  // Copies all rows; calls see(row, column, pack) for each pack of four elements.
  template <int kThreadsOfBlock, class F>
  __device__ void fill(const RowsOfFloats& rows, const F& see) const {
    TileLoads<Tile, kThreadsOfBlock> loads(rows);
    loads.store(*this);
    loads.each(see);
  }
  template <int kThreadsOfBlock>
  __device__ void fill(const RowsOfFloats& rows) const {
    TileLoads<Tile, kThreadsOfBlock>(rows).store(*this);
  }

  template <bool kTransposed>
  __device__ Fragment load(int row, int column) const {
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(data)) +
                        static_cast<uint32_t>(row * kStride + 2 * column);
    Fragment f;
    if constexpr (kTransposed) {
      ldmatrix_trans(f.high, at);
      ldmatrix_trans(f.low, at + kPlane);
    } else {
      ldmatrix(f.high, at);
      ldmatrix(f.low, at + kPlane);
    }
    return f;
  }
  // Returns the operand a whose first element is [row][k]; with kTransposed, the memory holds [k][row].
  template <bool kTransposed>
  __device__ Fragment load_a(int row, int k) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if constexpr (kTransposed)
      return load<true>(k + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8);
    else
      return load<false>(row + lane % 16, k + lane / 16 * 8);
  }
  // Returns the operand b of 16 columns whose first element is [k][column]; without kTransposed, the memory holds [column][k].
  template <bool kTransposed>
  __device__ Fragment load_b(int k, int column) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if constexpr (kTransposed)
      return load<true>(k + lane % 16, column + lane / 16 * 8);
    else
      return load<false>(column + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * 8);
  }
};

// The packs of a tile that a thread copies. A kernel that has registers left asks for several tiles before it stores the first.
template <class T, int kThreadsOfBlock>
struct TileLoads {
  static constexpr int kEach = T::kPacks / kThreadsOfBlock;
  static_assert(kEach * kThreadsOfBlock == T::kPacks);
  float4 packs[kEach];

  __device__ explicit TileLoads(const RowsOfFloats& rows) {
    each([&](int row, int column, float4& pack) { pack = rows.pack(row, column); });
  }
  __device__ void store(const T& tile) {
    each([&](int row, int column, const float4& pack) { tile.put_pack(row, column, pack); });
  }
  // Calls f(row, column, pack).
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreadsOfBlock;
      f(at / T::kPacksOfRow, at % T::kPacksOfRow * 4, packs[i]);
    }
  }
};

// Sums of 16 x 8 elements each: lane 4 g + t has [g][2 t], [g][2 t + 1], [g + 8][2 t] and [g + 8][2 t + 1].
template <int kN>
using Sums = float[kN][4];

// Adds the product of a with 16 columns of b to two neighboring sums.
__device__ __forceinline__ void multiply_add(float (&left)[4], float (&right)[4], const Fragment& a,
                                             const Fragment& b) {
  const auto add = [](float(&sums)[4], const uint32_t(&x)[4], uint32_t b0, uint32_t b1) {
    multiply_16x8<__nv_bfloat16>(sums, x[0], x[1], x[2], x[3], b0, b1);
  };
  add(left, a.low, b.high[0], b.high[1]);
  add(right, a.low, b.high[2], b.high[3]);
  add(left, a.high, b.low[0], b.low[1]);
  add(right, a.high, b.low[2], b.low[3]);
  add(left, a.high, b.high[0], b.high[1]);
  add(right, a.high, b.high[2], b.high[3]);
}

// Calls f(n, b) for each pair of sums n, n + 1 of 8 kN columns, with the operand that both need. A kernel multiplies several operands a
// with one b there, as loads from shared memory take as long as products.
template <bool kTransposed, int kN, class B, class F>
__device__ __forceinline__ void each_operand(const B& b, int k, int column, const F& f) {
#pragma unroll
  for (int n = 0; n < kN; n += 2) f(n, b.template load_b<kTransposed>(k, column + 8 * n));
}

// Adds the product of one fragment of a with 8 kN columns of b.
template <bool kTransposed, int kN, class B>
__device__ __forceinline__ void multiply_add(Sums<kN>& sums, const Fragment& a, const B& b, int k,
                                             int column) {
  each_operand<kTransposed, kN>(
      b, k, column, [&](int n, const Fragment& operand) { multiply_add(sums[n], sums[n + 1], a, operand); });
}

// Calls f(sums, row, column) for each pair of neighboring sums, of which f gets a pointer to the first.
template <int kN, class F>
__device__ __forceinline__ void each_pair(Sums<kN>& sums, int row, int column, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      f(&sums[n][2 * half], row + lane / 4 + 8 * half, column + 8 * n + lane % 4 * 2);
}

template <int kN>
__device__ __forceinline__ void clear(Sums<kN>& sums) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
}

#endif

}  // namespace genesis::cuda::delta
