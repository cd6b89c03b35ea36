// Adam with moments of 8 bits (schema/core/moment_codes.h) on the device. A warp updates one block of kMomentBlock values: it
// reads them once, 8 for each lane, keeps parameter and moments in registers, finds the new scales by reductions over its lanes and
// writes the codes. Memory limits it only if it takes few integer instructions, of which a multiprocessor runs half as many as
// products: codes are therefore packed four to a word, and decoded by tables in shared memory.
#pragma once

#include "backends/cuda/device/warp_greatest.h"
#include "backends/cuda/rows/optimizer_update.h"
#include "schema/core/moment_codes.h"

namespace genesis::cuda {

// Elements per block of threads, one moment block for each warp. Thread blocks that run at the same time then work side by side in
// all nine arrays, which the memory serves faster than as many places far apart.
constexpr int64_t kCodedUpdateChunk = 2 << 10;

// One parameter. m and v are codes; the scales' outputs may be their inputs, too.
struct CodedUpdateTensor : UpdateTensor {
  const float *m_scales = nullptr, *v_scales = nullptr;
  float *m_scales_out = nullptr, *v_scales_out = nullptr;

  int64_t chunks() const { return blocks_for(n, kCodedUpdateChunk); }
};

#ifdef __CUDACC__

constexpr int kCodesOfLane = kMomentBlock / kLanes, kCodeWords = kCodesOfLane / 4;

// The magnitudes of all codes, those of m with their signs.
struct MomentTables {
  float m[kThreads], v[kThreads];

  __device__ void fill() {
    static_assert(kThreads == 256, "each thread decodes one code");
    m[threadIdx.x] = decode_m(static_cast<uint8_t>(threadIdx.x), 1);
    v[threadIdx.x] = decode_v(static_cast<uint8_t>(threadIdx.x), 1);
  }
};

// Approximates the square root and the quotient to 2 units in the last place: the rounded functions take a fifth of the kernel's
// instructions, and the parameter is all that depends on them.
__device__ __forceinline__ float approximate_root(float x) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
__device__ __forceinline__ float approximate_inverse(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

// The formulas of AdamRule. Products and sums that make the moments round once each, as on the CPU, so that codes agree.
struct CodedAdamRule : AdamRule<float> {
  using AdamRule<float>::AdamRule;
  __device__ void operator()(UpdatedElement<float>& s) const {
    const float g = multiply_add(s.p, weight_decay, __fmul_rn(s.g, scale));
    s.m = __fadd_rn(s.m, __fmul_rn(__fsub_rn(g, s.m), fresh1));
    s.v = __fadd_rn(__fmul_rn(s.v, beta2), __fmul_rn(__fmul_rn(g, g), fresh2));
    const float root = multiply_add(approximate_root(s.v), inverse_root_correction, eps);
    s.p = multiply_add(-step_size, s.m * approximate_inverse(root), s.p * shrink);
  }
};

// The values of a lane: packs of N consecutive values, so that every access of a warp is contiguous.
template <int N>
struct LaneOfBlock {
  static constexpr int kPacks = kCodesOfLane / N;
  int64_t block;  // the block's first element
  int lane;

  __device__ int64_t pack(int k) const { return block + (k * kLanes + lane) * N; }
};

// Reads and writes the codes of a lane, four to a word.
template <int N>
__device__ __forceinline__ void read_codes(const void* codes, const LaneOfBlock<N>& at,
                                           uint32_t (&words)[kCodeWords]) {
  if constexpr (N == 1) words[0] = words[1] = 0;
#pragma unroll
  for (int k = 0; k < at.kPacks; ++k)
    if constexpr (N == 1) {
      words[k / 4] |= uint32_t{static_cast<const uint8_t*>(codes)[at.pack(k)]} << k % 4 * 8;
    } else {
      const auto pack = static_cast<const Pack<uint32_t, N / 4>*>(codes)[at.pack(k) / N];
#pragma unroll
      for (int j = 0; j < N / 4; ++j) words[k * N / 4 + j] = pack.at[j];
    }
}
template <int N>
__device__ __forceinline__ void write_codes(const uint32_t (&words)[kCodeWords], const LaneOfBlock<N>& at,
                                            void* codes) {
#pragma unroll
  for (int k = 0; k < at.kPacks; ++k)
    if constexpr (N == 1) {
      static_cast<uint8_t*>(codes)[at.pack(k)] = static_cast<uint8_t>(words[k / 4] >> k % 4 * 8);
    } else {
      Pack<uint32_t, N / 4> pack;
#pragma unroll
      for (int j = 0; j < N / 4; ++j) pack.at[j] = words[k * N / 4 + j];
      static_cast<Pack<uint32_t, N / 4>*>(codes)[at.pack(k) / N] = pack;
    }
}

// Returns the larger absolute value, or NaN if one of them is.
__device__ __forceinline__ float larger_magnitude(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(fabsf(a)), "f"(fabsf(b)));
  return larger;
}
__device__ __forceinline__ float scale_of_block(const float (&values)[kCodesOfLane]) {
  float greatest = fabsf(values[0]);
#pragma unroll
  for (int j = 1; j < kCodesOfLane; ++j) greatest = larger_magnitude(greatest, values[j]);
  return __uint_as_float(warp_greatest(__float_as_uint(greatest)));
}

// Returns magnitude_code() of y in the highest byte. One of `above` and `below` is kFine, and the other one is y: the numbers from
// kFine on count in steps of 2^19, those below in steps of 2^21.
template <int32_t kFine>
__device__ __forceinline__ uint32_t code_in_highest_byte(float y) {
  constexpr uint32_t kOffset = (uint32_t{kFineCode} << 24) + (1u << 23) - 40u * uint32_t{kFine};
  y = fmaxf(y, __int_as_float(kFine - (kFineCode << 21)));
  const float above = fmaxf(y, __int_as_float(kFine)), below = fminf(y, __int_as_float(kFine));
  return __float_as_uint(above) * 32 + (__float_as_uint(below) * 8 + kOffset);
}
__device__ __forceinline__ uint32_t highest_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x73), __byte_perm(c, d, 0x73), 0x5410);
}

// Encodes the values of a lane; returns the scale of the block.
template <bool kSigned>
__device__ __forceinline__ float encode_lane(const float (&values)[kCodesOfLane],
                                             uint32_t (&words)[kCodeWords]) {
  const float scale = scale_of_block(values), inverse = inverse_moment_scale(scale);
  uint32_t codes[kCodesOfLane];
#pragma unroll
  for (int j = 0; j < kCodesOfLane; ++j) {
    const float y = __fmul_rn(values[j], inverse);
    if constexpr (kSigned)
      codes[j] = (code_in_highest_byte<kFineM>(fabsf(y)) & 0x7fffffffu) | (__float_as_uint(y) & 0x80000000u);
    else
      codes[j] = code_in_highest_byte<kFineV>(y);
  }
#pragma unroll
  for (int i = 0; i < kCodeWords; ++i)
    words[i] = highest_bytes(codes[4 * i], codes[4 * i + 1], codes[4 * i + 2], codes[4 * i + 3]);
  return scale;
}

__device__ __forceinline__ float decoded(const float (&table)[kThreads], const uint32_t (&words)[kCodeWords],
                                         int j, float scale) {
  return __fmul_rn(table[words[j / 4] >> j % 4 * 8 & 255u], scale);
}

// Reads and writes parameters as Stored does, halves in fewer instructions.
template <class T>
struct StoredPack : Stored<T> {};
template <>
struct StoredPack<Halves> {
  template <int N>
  static __device__ __forceinline__ void read(const UpdateTensor& t, int64_t i, float (&p)[N]) {
    using P = Pack<uint16_t, N>;
    const P upper = static_cast<const P*>(t.p)[i / N], lower = static_cast<const P*>(t.lower)[i / N];
#pragma unroll
    for (int j = 0; j < N; ++j)  // join_halves() by a sum: the lower half has the sign of its highest bit
      p[j] = __uint_as_float((static_cast<uint32_t>(upper.at[j]) << 16) + static_cast<int16_t>(lower.at[j]));
  }
  template <int N>
  static __device__ __forceinline__ void write(const UpdateTensor& t, int64_t i, const float (&p)[N]) {
    bool is_number = true;
#pragma unroll
    for (int j = 0; j < N; ++j) is_number = is_number && p[j] == p[j];
    if constexpr (N > 1)
      if (is_number) return write_pairs(t, i, p);
    Stored<Halves>::write(t, i, p);
  }

 private:
  template <int N>
  static __device__ __forceinline__ void write_pairs(const UpdateTensor& t, int64_t i, const float (&p)[N]) {
    using Pairs = Pack<uint32_t, N / 2>;
    Pairs upper, lower;
#pragma unroll
    for (int j = 0; j < N; j += 2) {
      const uint32_t a = __float_as_uint(p[j]), b = __float_as_uint(p[j + 1]);
      upper.at[j / 2] = __byte_perm(a + 0x8000u, b + 0x8000u, 0x7632);
      lower.at[j / 2] = __byte_perm(a, b, 0x5410);
    }
    static_cast<Pairs*>(t.p_out)[i / N] = upper;
    static_cast<Pairs*>(t.lower_out)[i / N] = lower;
  }
};

template <class T, int N>
__device__ __forceinline__ void update_block(const CodedUpdateTensor& t, const CodedAdamRule& rule,
                                             const MomentTables& tables, const LaneOfBlock<N>& at) {
  const int64_t block = at.block / kMomentBlock;
  uint32_t m_words[kCodeWords], v_words[kCodeWords];
  read_codes(t.m, at, m_words);
  read_codes(t.v, at, v_words);
  const float m_scale = t.m_scales[block], v_scale = t.v_scales[block];
  float p[at.kPacks][N], g[at.kPacks][N], m[kCodesOfLane], v[kCodesOfLane];
#pragma unroll
  for (int k = 0; k < at.kPacks; ++k) {
    StoredPack<T>::read(t, at.pack(k), p[k]);
    WideVector{t.g, t.gradient_dtype}.at(at.pack(k) / N, 0.0f, g[k]);
  }
#pragma unroll
  for (int j = 0; j < kCodesOfLane; ++j) {
    UpdatedElement<float> one{p[j / N][j % N], g[j / N][j % N], decoded(tables.m, m_words, j, m_scale),
                              decoded(tables.v, v_words, j, v_scale)};
    rule(one);
    p[j / N][j % N] = one.p;
    m[j] = one.m;
    v[j] = one.v;
  }
#pragma unroll
  for (int k = 0; k < at.kPacks; ++k) StoredPack<T>::write(t, at.pack(k), p[k]);
  const float new_m = encode_lane<true>(m, m_words), new_v = encode_lane<false>(v, v_words);
  write_codes(m_words, at, t.m_out);
  write_codes(v_words, at, t.v_out);
  if (at.lane == 0) t.m_scales_out[block] = new_m, t.v_scales_out[block] = new_v;
}

// A skipped step: the outputs are the inputs.
template <class T, int N>
__device__ void keep_block(const CodedUpdateTensor& t, const LaneOfBlock<N>& at) {
  const int64_t block = at.block / kMomentBlock;
  uint32_t words[kCodeWords];
  read_codes(t.m, at, words);
  write_codes(words, at, t.m_out);
  read_codes(t.v, at, words);
  write_codes(words, at, t.v_out);
  float p[N];
  for (int k = 0; k < at.kPacks; ++k) {
    Stored<T>::read(t, at.pack(k), p);
    Stored<T>::write(t, at.pack(k), p);
  }
  if (at.lane == 0) t.m_scales_out[block] = t.m_scales[block], t.v_scales_out[block] = t.v_scales[block];
}

template <class T, int N, int kMax>
__global__ void __launch_bounds__(kThreads)
    coded_update_kernel(const __grid_constant__ UpdateTable<kMax, CodedUpdateTensor> table) {
  __shared__ UpdateScalars scalars;
  __shared__ MomentTables tables;
  if (threadIdx.x == 0) scalars.read(table.options);
  tables.fill();
  __syncthreads();
  const CodedUpdateTensor& t = entry_of_block(table.tensors, table.count);
  const CodedAdamRule rule(table.options, t, scalars);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  static_assert(kCodedUpdateChunk == kThreads / kLanes * kMomentBlock, "a warp has one block of moments");
  const int64_t i = (blockIdx.x - t.first_chunk) * kCodedUpdateChunk + warp * kMomentBlock;
  if (i >= t.n) return;
  if (scalars.skip)
    keep_block<T, N>(t, {i, lane});
  else
    update_block<T, N>(t, rule, tables, {i, lane});
}

#endif

}  // namespace genesis::cuda
