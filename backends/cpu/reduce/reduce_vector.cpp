// SIMD reductions of f32, bf16 and f16, compiled once per instruction set. Sums run in 8 vectors side by side that are then added
// as a tree, so their order depends only on the sizes and the vector width.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/reduce/reduce_functions.h"
#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/reduce/reduce_vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/simd/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

// Selects a or b, but NaN if either is NaN: a comparison with NaN is false, which selects b.
HWY_INLINE Vec prefer(hn::Mask<F32> take_a, Vec a, Vec b) {
  return hn::IfThenElse(hn::Or(take_a, hn::IsNaN(a)), a, b);
}

struct SumOp {
  static constexpr float kIdentity = 0;
  static HWY_INLINE Vec combine(Vec a, Vec b) { return hn::Add(a, b); }
  static float combine(float a, float b) { return a + b; }
};
struct ProdOp {
  static constexpr float kIdentity = 1;
  static HWY_INLINE Vec combine(Vec a, Vec b) { return hn::Mul(a, b); }
  static float combine(float a, float b) { return a * b; }
};
struct MaxOp {
  static constexpr float kIdentity = -kInf;
  static HWY_INLINE Vec combine(Vec a, Vec b) { return prefer(hn::Gt(a, b), a, b); }
  static float combine(float a, float b) { return a > b || a != a ? a : b; }
};
struct MinOp {
  static constexpr float kIdentity = kInf;
  static HWY_INLINE Vec combine(Vec a, Vec b) { return prefer(hn::Lt(a, b), a, b); }
  static float combine(float a, float b) { return a < b || a != a ? a : b; }
};

// Combines all lanes of v, halving their number each time.
template <class Op>
HWY_INLINE float fold(Vec v) {
  if constexpr (std::is_same_v<Op, SumOp>) return sum_lanes(v);
  HWY_ALIGN float lanes[2 * kLanes];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    store(v, lanes);
    v = Op::combine(v, load(lanes + half));  // the upper half is not used again
  }
  return hn::GetLane(v);
}

// Elements per block. Within a block an element takes part in at most kRounds additions before the tree, whatever the vector
// width, so the rounding error does not grow with narrow vectors.
constexpr int64_t kRounds = 32, kBlock = kRounds * 8 * kLanes;

template <class Op, class T>
HWY_INLINE Vec reduce_block(const T* x, int64_t n) {
  const Vec identity = hn::Set(kF32, Op::kIdentity);
  Vec a = identity, b = identity, c = identity, d = identity, e = identity, f = identity, g = identity,
      h = identity;
  int64_t i = 0;
  for (; i + 8 * kLanes <= n; i += 8 * kLanes) {
    a = Op::combine(load(x + i), a), b = Op::combine(load(x + i + kLanes), b);
    c = Op::combine(load(x + i + 2 * kLanes), c), d = Op::combine(load(x + i + 3 * kLanes), d);
    e = Op::combine(load(x + i + 4 * kLanes), e), f = Op::combine(load(x + i + 5 * kLanes), f);
    g = Op::combine(load(x + i + 6 * kLanes), g), h = Op::combine(load(x + i + 7 * kLanes), h);
  }
  for (; i + kLanes <= n; i += kLanes) a = Op::combine(load(x + i), a);
  if (i < n) b = Op::combine(load(x + i, Part{n - i}, Op::kIdentity), b);
  a = Op::combine(Op::combine(a, b), Op::combine(c, d));
  e = Op::combine(Op::combine(e, f), Op::combine(g, h));
  return Op::combine(a, e);
}

template <class Op, class T>
HWY_INLINE float reduce_span(const T* x, int64_t n) {
  if (n < kLanes) {  // a row shorter than a vector is faster in scalar code
    float sum = Op::kIdentity;
    for (int64_t i = 0; i < n; ++i) sum = Op::combine(static_cast<float>(x[i]), sum);
    return sum;
  }
  Vec all = reduce_block<Op>(x, std::min(n, kBlock));
  for (int64_t i = kBlock; i < n; i += kBlock)
    all = Op::combine(all, reduce_block<Op>(x + i, std::min(n - i, kBlock)));
  return fold<Op>(all);
}

template <class Op, class T>
void span(const void* x, int64_t n, void* acc) {
  *static_cast<float*>(acc) = reduce_span<Op>(static_cast<const T*>(x), n);
}

// Combines eight rows into one vector, which then joins the accumulator.
template <class Op, class T, class Lanes>
HWY_INLINE Vec eight_rows(const T* x, int64_t stride, Lanes lanes) {
  const Vec a = Op::combine(load(x, lanes), load(x + stride, lanes));
  const Vec b = Op::combine(load(x + 2 * stride, lanes), load(x + 3 * stride, lanes));
  const Vec c = Op::combine(load(x + 4 * stride, lanes), load(x + 5 * stride, lanes));
  const Vec d = Op::combine(load(x + 6 * stride, lanes), load(x + 7 * stride, lanes));
  return Op::combine(Op::combine(a, b), Op::combine(c, d));
}

template <class Op, class T>
void columns(const void* data, int64_t rows, int64_t width, int64_t stride, void* accumulator) {
  const T* x = static_cast<const T*>(data);
  float* acc = static_cast<float*>(accumulator);
  each_vector(width, [&](int64_t j, auto lanes) { store(hn::Set(kF32, Op::kIdentity), acc + j, lanes); });
  int64_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    each_vector(width, [&](int64_t j, auto lanes) {
      const Vec eight = eight_rows<Op>(x + row * stride + j, stride, lanes);
      store(Op::combine(load(acc + j, lanes), eight), acc + j, lanes);
    });
  }
  for (; row < rows; ++row) {
    each_vector(width, [&](int64_t j, auto lanes) {
      store(Op::combine(load(acc + j, lanes), load(x + row * stride + j, lanes)), acc + j, lanes);
    });
  }
}

template <class Op>
void merge(void* accumulator, const void* other, int64_t n) {
  float* acc = static_cast<float*>(accumulator);
  const float* more = static_cast<const float*>(other);
  each_vector(n, [&](int64_t j, auto lanes) {
    store(Op::combine(load(acc + j, lanes), load(more + j, lanes)), acc + j, lanes);
  });
}

template <class T>
void finish(const void* accumulator, void* y, int64_t n, double divisor) {
  const float* acc = static_cast<const float*>(accumulator);
  const Vec by = hn::Set(kF32, static_cast<float>(divisor));
  each_vector(n, [&](int64_t j, auto lanes) {
    store(hn::Div(load(acc + j, lanes), by), static_cast<T*>(y) + j, lanes);
  });
}

template <class Op, class T>
ReduceFunctions functions() {
  return {sizeof(float), span<Op, T>, columns<Op, T>, merge<Op>, finish<T>};
}

template <class T>
ReduceFunctions functions_for(Reduce op) {
  switch (op) {
    case Reduce::kSum:
      return functions<SumOp, T>();
    case Reduce::kProd:
      return functions<ProdOp, T>();
    case Reduce::kMax:
      return functions<MaxOp, T>();
    case Reduce::kMin:
      return functions<MinOp, T>();
    default:
      return {};
  }
}

// Computes the mean of a span and then the squared distances from it, in two passes over a span that stays in the L1 cache.
template <class T>
PairState moments(const void* data, int64_t n) {
  const T* x = static_cast<const T*>(data);
  const float mean = reduce_span<SumOp>(x, n) / static_cast<float>(n);
  const Vec center = hn::Set(kF32, mean);
  Vec squares[4] = {hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32)};
  Vec drift = hn::Zero(kF32);  // sum of deviations, not zero because the mean is rounded
  int64_t which = 0;
  each_vector(n, [&](int64_t i, auto lanes) {
    const Vec d = only(hn::Sub(load(x + i, lanes), center), lanes);
    Vec& sum = squares[which++ & 3];
    sum = hn::MulAdd(d, d, sum);
    drift = hn::Add(drift, d);
  });
  const double left = static_cast<double>(sum_lanes(drift)), count = static_cast<double>(n);
  const double total = static_cast<double>(
      sum_lanes(hn::Add(hn::Add(squares[0], squares[1]), hn::Add(squares[2], squares[3]))));
  return {static_cast<double>(mean) + left / count, total - left * left / count};
}

template <class T>
PairState log_sum_exp(const void* data, int64_t n) {
  const T* x = static_cast<const T*>(data);
  const float greatest = reduce_span<MaxOp>(x, n);
  if (!(greatest - greatest == 0)) return {greatest, greatest == -kInf ? 0.0 : 1.0};  // infinite or NaN
  const Vec shift = hn::Set(kF32, greatest);
  Vec even = hn::Zero(kF32), odd = hn::Zero(kF32);
  each_vector(n, [&](int64_t i, auto lanes) {
    const Vec e = only(exp_nonpositive(hn::Sub(load(x + i, lanes), shift)), lanes);
    const Vec swap = even;
    even = hn::Add(odd, e);
    odd = swap;
  });
  return {greatest, static_cast<double>(sum_lanes(hn::Add(even, odd)))};
}

template <class T>
PairState (*pair_span(PairReduce op))(const void*, int64_t) {
  return op == PairReduce::kMoments ? moments<T> : log_sum_exp<T>;
}

ReduceFunctions table(Reduce op, DType dtype) {
  if (dtype == DType::f32) return functions_for<float>(op);
  return dtype == DType::bf16 ? functions_for<bf16>(op) : functions_for<f16>(op);
}

PairFunctions pair_table(PairReduce op, DType dtype) {
  if (dtype == DType::f32) return {pair_span<float>(op), nullptr};
  return {dtype == DType::bf16 ? pair_span<bf16>(op) : pair_span<f16>(op), nullptr};
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(table);
HWY_EXPORT(pair_table);

ReduceFunctions reduce_functions_vector(Reduce op, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(table)(op, dtype);
}

PairFunctions pair_functions_vector(PairReduce op, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(pair_table)(op, dtype);
}

}  // namespace genesis::cpu
#endif
