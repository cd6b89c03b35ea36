// Reductions that need more than one number per row: var, std, logsumexp, argmax, argmin, cumsum. Except for cumsum they work on
// rows; a copy moves other axes last.
#include <algorithm>
#include <cmath>

#include "backends/common/row_shape.h"
#include "backends/cpu/moves/run_moves.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/reduce/reduce_functions.h"
#include "backends/cpu/reduce/reduce_shape.h"
#include "schema/core/checked_size.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kSpan = 4096;         // elements that are read twice while they are in the L1 cache
constexpr int64_t kRowChunk = 1 << 16;  // elements per task

enum class Finish : uint8_t { kVar, kStd, kLogSumExp };

struct PairPlan {
  ReduceShape shape;
  PairFunctions functions;
  Finish finish;
  double divisor = 1;
  int64_t element = 0, chunks = 1;
};

const std::byte* gathered(const ReduceShape& shape, const KernelContext& c) {
  if (!shape.gather) return c.input(0).as<std::byte>();
  run_strided_copy(*shape.gather, c.scratch, c.input(0).data);
  return c.scratch;
}

PairState reduce_pair(const PairPlan& plan, const std::byte* x, int64_t n) {
  PairState state = plan.functions.span(x, std::min(n, kSpan));
  for (int64_t i = kSpan; i < n; i += kSpan) {
    const int64_t more = std::min(kSpan, n - i);
    state = plan.functions.merge(state, i, plan.functions.span(x + i * plan.element, more), more);
  }
  return state;
}

double finish_pair(const PairPlan& plan, PairState s) {
  if (plan.finish == Finish::kLogSumExp) return std::isfinite(s.a) ? s.a + std::log(s.b) : s.a;
  const double var = s.b / plan.divisor;
  return plan.finish == Finish::kStd ? std::sqrt(var) : var;
}

void run_pair(const KernelContext& c) {
  const auto& plan = c.prepared<PairPlan>();
  const int64_t outer = plan.shape.outer, count = plan.shape.count;
  const std::byte* x = gathered(plan.shape, c);
  const auto finish = [&](PairState state, int64_t i) {
    const double y = finish_pair(plan, state);
    dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_integral_v<T>) c.output().as<T>()[i] = static_cast<T>(y);
    });
  };
  if (count == 0) {
    const double inf = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < outer; ++i)
      finish(plan.finish == Finish::kLogSumExp ? PairState{-inf, 0} : PairState{0, 0}, i);
    return;
  }
  if (plan.chunks == 1) {
    parallel_rows(outer, count * plan.element, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        finish(reduce_pair(plan, x + i * count * plan.element, count), i);
    });
    return;
  }
  auto* partial = reinterpret_cast<PairState*>(c.scratch + plan.shape.gather_bytes);
  parallel_chunks(outer * plan.chunks, [&](int64_t task) {
    const int64_t start = task % plan.chunks * kRowChunk;
    const std::byte* from = x + (task / plan.chunks * count + start) * plan.element;
    partial[task] = reduce_pair(plan, from, std::min(kRowChunk, count - start));
  });
  for (int64_t i = 0; i < outer; ++i) {
    PairState state = partial[i * plan.chunks];
    for (int64_t k = 1; k < plan.chunks; ++k)
      state = plan.functions.merge(state, k * kRowChunk, partial[i * plan.chunks + k],
                                   std::min(kRowChunk, count - k * kRowChunk));
    finish(state, i);
  }
}

PairPlan make_pair_plan(const KernelQuery& query, Finish finish) {
  const TensorType& x = query.inputs[0];
  PairPlan plan;
  plan.finish = finish;
  int64_t correction = 0;
  Axes axes;
  if (finish == Finish::kLogSumExp) {
    axes = from_attributes<ops::OverAxes>(query.attributes).axes;
  } else {
    const auto op = from_attributes<ops::Moment>(query.attributes);
    axes = op.axes, correction = op.correction;
  }
  plan.shape = make_reduce_shape(x.shape, normalize_axes(axes, x.shape.rank()), x.dtype, true);
  plan.functions =
      pair_functions(finish == Finish::kLogSumExp ? PairReduce::kLogSumExp : PairReduce::kMoments, x.dtype);
  plan.divisor = static_cast<double>(std::max<int64_t>(0, plan.shape.count - correction));
  plan.element = static_cast<int64_t>(size_of(x.dtype));
  if (plan.shape.count > 2 * kRowChunk) plan.chunks = (plan.shape.count + kRowChunk - 1) / kRowChunk;
  return plan;
}

template <Finish finish>
std::shared_ptr<const void> prepare_pair(const KernelQuery& query) {
  return std::make_shared<const PairPlan>(make_pair_plan(query, finish));
}

template <Finish finish>
int64_t pair_scratch(const KernelQuery& query) {
  const PairPlan plan = make_pair_plan(query, finish);
  const CheckedSize partial =
      plan.chunks > 1 ? CheckedSize(plan.shape.outer) * plan.chunks * sizeof(PairState) : 0;
  return (partial + plan.shape.gather_bytes).value();
}

// --- argmax, argmin

// Returns true if a comes before b: NaN before everything, then the greater (or lesser) number.
template <bool kMax, class T>
bool beats(T a, T b) {
  if (b != b) return false;
  return a != a || (kMax ? a > b : a < b);
}

template <class T>
auto number(T x) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
    return static_cast<float>(x);
  else
    return x;
}

// Compares whole blocks with the best element so far, in independent lanes; only a block with a better one is searched.
template <bool kMax, class T>
int64_t arg_of_row(const T* x, int64_t n) {
  constexpr int64_t kLanes = 16, kBlock = 256;
  using N = decltype(number(T()));
  int64_t best = 0;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t length = std::min(kBlock, n - start);
    bool better = length < kBlock;
    if (!better) {
      const N bound = number(x[best]);
      int32_t lanes[kLanes] = {};
      for (int64_t i = 0; i < kBlock; i += kLanes)
        for (int64_t k = 0; k < kLanes; ++k) {
          const N v = number(x[start + i + k]);
          lanes[k] |= static_cast<int32_t>(v != v) | static_cast<int32_t>(kMax ? v > bound : v < bound);
        }
      for (int32_t lane : lanes) better |= lane != 0;
    }
    if (!better) continue;
    for (int64_t i = start; i < start + length; ++i)
      if (beats<kMax>(number(x[i]), number(x[best]))) best = i;
  }
  return best;
}

template <bool kMax>
void run_arg(const KernelContext& c) {
  const auto& shape = c.prepared<ReduceShape>();
  const std::byte* data = gathered(shape, c);
  dispatch(c.input(0).dtype == DType::boolean ? DType::u8 : c.input(0).dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* x = reinterpret_cast<const T*>(data);
      parallel_rows(shape.outer, shape.count * static_cast<int64_t>(sizeof(T)),
                    [&](int64_t first, int64_t last) {
                      for (int64_t i = first; i < last; ++i)
                        c.output().as<int64_t>()[i] = arg_of_row<kMax>(x + i * shape.count, shape.count);
                    });
    }
  });
}

ReduceShape arg_shape(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  std::vector<int> axes;
  if (x.shape.rank() > 0)
    axes.push_back(normalize_axis(from_attributes<ops::OneAxis>(query.attributes).axis, x.shape.rank()));
  return make_reduce_shape(x.shape, axes, x.dtype, true);
}

std::shared_ptr<const void> prepare_arg(const KernelQuery& query) {
  return std::make_shared<const ReduceShape>(arg_shape(query));
}

int64_t arg_scratch(const KernelQuery& query) { return arg_shape(query).gather_bytes; }

// --- cumsum

// Accumulates columns side by side. Sums of reals are double, sums of integers are i64.
template <class T, class Y>
void cumsum_columns(const T* x, Y* y, int64_t count, int64_t stride, int64_t width, bool reverse) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  constexpr int64_t kWidth = 256;
  Sum sums[kWidth];
  for (int64_t start = 0; start < width; start += kWidth) {
    const int64_t n = std::min(kWidth, width - start);
    std::fill_n(sums, n, Sum(0));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (reverse ? count - 1 - i : i) * stride + start;
      for (int64_t j = 0; j < n; ++j) {
        sums[j] += static_cast<Sum>(number(x[at + j]));
        y[at + j] = static_cast<Y>(sums[j]);
      }
    }
  }
}

void run_cumsum(const KernelContext& c) {
  const TensorView& x = c.input(0);
  const auto& op = c.attributes<ops::CumSum>();
  const RowShape shape = row_shape(x.sizes(), op.axis);
  const int64_t outer = shape.outer, count = shape.n, inner = shape.inner;
  if (outer * count * inner == 0) return;
  const int64_t width = std::min<int64_t>(inner, 256), tiles = (inner + width - 1) / width;
  dispatch(x.dtype, [&]<class T>(TypeTag<T>) {
    using Y = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    parallel_rows(outer * tiles, count * width * static_cast<int64_t>(sizeof(T)),
                  [&](int64_t first, int64_t last) {
                    for (int64_t i = first; i < last; ++i) {
                      const int64_t column = i % tiles * width, at = i / tiles * count * inner + column;
                      cumsum_columns(x.as<T>() + at, c.output().as<Y>() + at, count, inner,
                                     std::min(width, inner - column), op.reverse);
                    }
                  });
  });
}

template <Finish finish>
constexpr KernelImpl kPair = {
    .name = "rows", .run = run_pair, .scratch_bytes = pair_scratch<finish>, .prepare = prepare_pair<finish>};
template <bool kMax>
constexpr KernelImpl kArg = {
    .name = "rows", .run = run_arg<kMax>, .scratch_bytes = arg_scratch, .prepare = prepare_arg};

constexpr OpKernel kKernels[] = {{"var", kPair<Finish::kVar>},
                                 {"std", kPair<Finish::kStd>},
                                 {"logsumexp", kPair<Finish::kLogSumExp>},
                                 {"argmax", kArg<true>},
                                 {"argmin", kArg<false>},
                                 {"cumsum", {.name = "columns", .run = run_cumsum}}};

}  // namespace

std::span<const OpKernel> reduce_rows_kernels() { return kKernels; }

}  // namespace genesis::cpu
