// SIMD building blocks of the attention leaves: a matrix product over buffers in cache, base-2 exponentials, and the copies
// between tensors and those buffers. Included once per instruction set by the .cpp files of the leaves. Buffers are f32, with
// rows padded with zeros to a multiple of kRowPad, so that no loop here has a tail along a row.
#if defined(GENESIS_ATTENTION_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_ATTENTION_SIMD_INL_H_
#undef GENESIS_ATTENTION_SIMD_INL_H_
#else
#define GENESIS_ATTENTION_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/attention/attention_tasks.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {  // unnamed, since other files of this namespace have their own load()

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F()));
constexpr int64_t kNr = 2 * kLanes;         // columns of a register tile
constexpr int kMr = kLanes == 16 ? 12 : 6;  // rows of one: 24 of 32 (or 12 of 16) registers accumulate
static_assert(kMr <= kMaxTileRows && kRowPad % kNr == 0);
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Returns 2^x: with x = n + f, a polynomial for 2^f on [-1/2, 1/2] (relative error 6e-9 before rounding), and n added to the
// exponent. Below 2^-126 the result is 0. NaN stays NaN.
HWY_INLINE V exp2(F f, V x) {
  const auto tiny = hn::Lt(x, hn::Set(f, -126.0f));
  const V n = hn::Round(x), r = hn::Sub(x, n);
  V p = hn::Set(f, 1.54614477e-4f);
  p = hn::MulAdd(p, r, hn::Set(f, 1.33908668e-3f));
  p = hn::MulAdd(p, r, hn::Set(f, 9.61805694e-3f));
  p = hn::MulAdd(p, r, hn::Set(f, 5.55035695e-2f));
  p = hn::MulAdd(p, r, hn::Set(f, 2.40226507e-1f));
  p = hn::MulAdd(p, r, hn::Set(f, 6.93147182e-1f));
  p = hn::MulAdd(p, r, hn::Set(f, 1.0f));
  const hn::RebindToSigned<F> i;
  const V power = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(i, n), hn::Set(i, 127))));
  return hn::IfThenElse(tiny, hn::Zero(f), hn::Mul(p, power));
}

HWY_INLINE float exp2_of(float x) {
  const F f;
  return hn::GetLane(exp2(f, hn::Set(f, x)));
}

// --- product of blocks

// Storage of the operand A of a tile: kRows is row-major, element (i, p) at a[i * ld + p]; kColumns is transposed, at a[p * ld +
// i].
enum class Stored : uint8_t { kRows, kColumns };

// Computes a tile of C of kRows rows and kVectors vectors, held in registers over the whole depth. Adds to C if `add`, else
// overwrites it.
template <int kRows, int kVectors, Stored kStored>
HWY_INLINE void tile(int64_t depth, const float* HWY_RESTRICT a, int64_t lda, const float* HWY_RESTRICT b,
                     int64_t ldb, float* HWY_RESTRICT c, int64_t ldc, bool add) {
  const F f;
  V sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(f);
  for (int64_t p = 0; p < depth; ++p) {
    V x[kVectors];
    for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(f, b + v * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const V y = hn::Set(f, kStored == Stored::kRows ? a[i * lda] : a[i]);
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(y, x[v], sum[i][v]);
    }
    a += kStored == Stored::kRows ? 1 : lda;
    b += ldb;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i, c += ldc) {
    for (int v = 0; v < kVectors; ++v) {
      if (add) sum[i][v] = hn::Add(sum[i][v], hn::LoadU(f, c + v * kLanes));
      hn::StoreU(sum[i][v], f, c + v * kLanes);
    }
  }
}

// The operand B as panels of kNr columns: element (p, j) lies at data[j / kNr * panel + p * ld + j % kNr].
struct Panels {
  const float* data;
  int64_t ld, panel;
};
inline Panels rows_of(const float* data, int64_t ld) { return {data, ld, kNr}; }
inline Panels transposed(const float* data, int64_t depth) { return {data, kNr, depth * kNr}; }

// Computes at most kMr rows and n columns of C, where n is rounded up to whole vectors.
template <Stored kStored>
HWY_INLINE void row_of_tiles(int64_t rows, int64_t n, int64_t depth, const float* a, int64_t lda,
                             const Panels& b, float* c, int64_t ldc, bool add) {
  const auto across = [&]<int kRows>(std::integral_constant<int, kRows>, int64_t row) {
    const float* from = a + row * (kStored == Stored::kRows ? lda : 1);
    for (int64_t j = 0; j < n; j += kNr) {
      const float* panel = b.data + j / kNr * b.panel;
      if (n - j > kLanes)
        tile<kRows, 2, kStored>(depth, from, lda, panel, b.ld, c + row * ldc + j, ldc, add);
      else
        tile<kRows, 1, kStored>(depth, from, lda, panel, b.ld, c + row * ldc + j, ldc, add);
    }
  };
  int64_t row = 0;
  if (rows == kMr) return across(std::integral_constant<int, kMr>(), 0);
  if constexpr (kMr > 8)
    if (rows & 8) across(std::integral_constant<int, 8>(), row), row += 8;
  if (rows & 4) across(std::integral_constant<int, 4>(), row), row += 4;
  if (rows & 2) across(std::integral_constant<int, 2>(), row), row += 2;
  if (rows & 1) across(std::integral_constant<int, 1>(), row);
}

// --- copies

template <class T>
HWY_INLINE V load(F f, const T* p) {
  if constexpr (std::is_same_v<T, float>)
    return hn::LoadU(f, p);
  else if constexpr (std::is_same_v<T, bf16>)
    return hn::PromoteTo(
        f, hn::LoadU(hn::Rebind<hwy::bfloat16_t, F>(), reinterpret_cast<const hwy::bfloat16_t*>(p)));
  else
    return hn::PromoteTo(
        f, hn::LoadU(hn::Rebind<hwy::float16_t, F>(), reinterpret_cast<const hwy::float16_t*>(p)));
}

// Calls body(T*) with the pointer type of the rows' dtype: f32, bf16 or f16.
template <class Body>
HWY_INLINE void with_elements(const HeadRows& rows, Body&& body) {
  if (rows.dtype == DType::bf16)
    body(reinterpret_cast<bf16*>(rows.data));
  else if (rows.dtype == DType::f16)
    body(reinterpret_cast<f16*>(rows.data));
  else
    body(reinterpret_cast<float*>(rows.data));
}

// Does what load_rows() does, for rows of quants.
inline void load_quants(const HeadRows& from, int64_t count, int64_t size, float scale, float* to,
                        int64_t ld) {
  const F f;
  const hn::RebindToSigned<F> i32;
  const hn::Rebind<int8_t, F> i8;
  const auto* data = reinterpret_cast<const int8_t*>(from.data);
  for (int64_t i = 0; i < count; ++i, data += from.stride, to += ld) {
    const float of_row = scale * from.scales[i * from.scale_stride];
    const V factor = hn::Set(f, of_row);
    int64_t d = 0;
    for (; d + kLanes <= size; d += kLanes)
      hn::StoreU(hn::Mul(hn::ConvertTo(f, hn::PromoteTo(i32, hn::LoadU(i8, data + d))), factor), f, to + d);
    for (; d < size; ++d) to[d] = static_cast<float>(data[d]) * of_row;
    for (; d < ld; ++d) to[d] = 0;
  }
}

// to[i][0..size) = scale * from[i][0..size) for `count` rows, followed by zeros up to `ld`.
inline void load_rows(const HeadRows& from, int64_t count, int64_t size, float scale, float* to, int64_t ld) {
  if (from.dtype == DType::i8) return load_quants(from, count, size, scale, to, ld);
  const F f;
  const V factor = hn::Set(f, scale);
  with_elements(from, [&](const auto* data) {
    for (int64_t i = 0; i < count; ++i, data += from.stride, to += ld) {
      int64_t d = 0;
      for (; d + kLanes <= size; d += kLanes) hn::StoreU(hn::Mul(load(f, data + d), factor), f, to + d);
      for (; d < size; ++d) to[d] = static_cast<float>(data[d]) * scale;
      for (; d < ld; ++d) to[d] = 0;
    }
  });
}

// to[0..size) = scale * from[0..size).
inline void store_row(const float* from, float scale, int64_t size, const HeadRows& to) {
  const F f;
  const V factor = hn::Set(f, scale);
  with_elements(to, [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    int64_t d = 0;
    if constexpr (std::is_same_v<T, float>)
      for (; d + kLanes <= size; d += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(f, from + d), factor), f, data + d);
    for (; d < size; ++d) data[d] = static_cast<T>(from[d] * scale);
  });
}

inline void store_rows(const float* from, int64_t ld, int64_t count, float scale, int64_t size,
                       const HeadRows& to) {
  for (int64_t i = 0; i < count; ++i) store_row(from + i * ld, scale, size, to.from(i));
}

// Transposes rows [0, count) into panels of kNr rows each: element d of row i goes to panels[i / kNr][d][i % kNr]. The rows up to
// the next multiple of kNr must be readable; `depth` and kNr are multiples of 4.
inline void transpose_rows(const float* from, int64_t ld, int64_t count, int64_t depth, float* panels) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < count; ++i)
    for (int64_t d = 0; d < depth; ++d) panels[(i / kNr * depth + d) * kNr + i % kNr] = from[i * ld + d];
#else
  const hn::FixedTag<float, 4> f;
  const hn::Repartition<double, decltype(f)> pairs;
  for (int64_t i = 0; i < count; i += 4) {
    float* to = panels + i / kNr * depth * kNr + i % kNr;
    for (int64_t d = 0; d < depth; d += 4) {
      const float* at = from + i * ld + d;
      const auto r0 = hn::LoadU(f, at), r1 = hn::LoadU(f, at + ld), r2 = hn::LoadU(f, at + 2 * ld),
                 r3 = hn::LoadU(f, at + 3 * ld);
      const auto lo01 = hn::BitCast(pairs, hn::InterleaveLower(f, r0, r1)),
                 lo23 = hn::BitCast(pairs, hn::InterleaveLower(f, r2, r3)),
                 hi01 = hn::BitCast(pairs, hn::InterleaveUpper(f, r0, r1)),
                 hi23 = hn::BitCast(pairs, hn::InterleaveUpper(f, r2, r3));
      hn::StoreU(hn::BitCast(f, hn::InterleaveLower(pairs, lo01, lo23)), f, to + d * kNr);
      hn::StoreU(hn::BitCast(f, hn::InterleaveUpper(pairs, lo01, lo23)), f, to + (d + 1) * kNr);
      hn::StoreU(hn::BitCast(f, hn::InterleaveLower(pairs, hi01, hi23)), f, to + (d + 2) * kNr);
      hn::StoreU(hn::BitCast(f, hn::InterleaveUpper(pairs, hi01, hi23)), f, to + (d + 3) * kNr);
    }
  }
#endif
}

// --- rows of scores

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

// Applies the mask to scores[0..n) of the keys first, first + 1, ...: adds a float mask (in units of log 2), or sets scores
// hidden by a bool mask to -inf.
inline void apply_mask(const MaskPlane& mask, int64_t query, int64_t first, int64_t n, float* scores) {
  const int64_t start = query * mask.row_stride + first * mask.key_stride;
  dispatch(mask.dtype, [&]<class T>(TypeTag<T>) {
    const auto* at = reinterpret_cast<const T*>(mask.data) + start;
    for (int64_t j = 0; j < n; ++j, at += mask.key_stride) {
      if constexpr (std::is_same_v<T, bool>)
        scores[j] = *at ? scores[j] : kMinusInfinity;
      else
        scores[j] += static_cast<float>(*at) * kLog2E;
    }
  });
}

// Sets the scores of keys before the first visible one (outside the window, or before key_start) to -inf.
inline void hide_before(const VisibleKeys& visible, int64_t query, int64_t first, int64_t n, float* scores) {
  const int64_t hidden = std::clamp<int64_t>(visible.begin(query) - first, 0, n);
  std::fill(scores, scores + hidden, kMinusInfinity);
}

// Fills x from n to the next multiple of kLanes with `value`.
inline void fill_tail(float* x, int64_t n, float value) {
  std::fill(x + n, x + (n + kLanes - 1) / kLanes * kLanes, value);
}

inline bool has_nan(const float* x, int64_t n) {
  return std::any_of(x, x + n, [](float v) { return v != v; });
}

// Returns the maximum of scores whose tail is filled with -inf. A NaN may be missed, but not if all other scores are -inf.
inline float max_of(const float* x, int64_t n) {
  const F f;
  V max = hn::Set(f, kMinusInfinity);
  for (int64_t j = 0; j < n; j += kLanes) max = hn::Max(max, hn::LoadU(f, x + j));
  const float best = hn::GetLane(hn::MaxOfLanes(f, max));
  return best == kMinusInfinity && has_nan(x, n) ? std::numeric_limits<float>::quiet_NaN() : best;
}

// p[0..n) = 2^(p - max) for scores whose tail is filled with -inf. Returns the sum of the results.
inline float exponentials(float* p, int64_t n, float max) {
  const F f;
  const V shift = hn::Set(f, max);
  V sum = hn::Zero(f);
  for (int64_t j = 0; j < n; j += kLanes) {
    const V e = exp2(f, hn::Sub(hn::LoadU(f, p + j), shift));
    hn::StoreU(e, f, p + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(f, sum));
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
