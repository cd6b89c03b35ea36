// cross_entropy and its gradient: the forward pass reads the logits once, with the maximum and the sum of
// exponentials kept together, and the gradient reads and writes them once. A tiny second kernel adds the
// rows' losses, in f64 and in one order. Smoothed and probability targets read a row (from cache) once more.
#include "backends/cuda/exponential.h"
#include "backends/cuda/rows.h"
#include "backends/cuda/wide_vector.h"
#include "schema/ops/loss.h"

namespace genesis::cuda {
namespace {

constexpr int kMostThreads = 512;  // more would not have the registers

struct LossArguments {
  const void* logits = nullptr;
  const void* target = nullptr;  // class indices [rows], or probabilities [rows, classes]
  DType target_dtype = DType::i64;
  bool probabilities = false;
  WideVector weight;  // or null
  void* lse = nullptr;
  int64_t rows = 0, classes = 1, packs = 1, ignore_index = -100;
  int group = 32;
  double smoothing = 0;
  FaultReport fault;

  double* row_loss = nullptr;  // forward

  void* dlogits = nullptr;  // gradient; may be the logits
  const void* dy = nullptr;
  bool dy_per_row = false;
  const double* denominator = nullptr;  // of a mean, or null

  // The row's class, or -1 when it does not count.
  __device__ int64_t class_of(int64_t row) const {
    const int64_t at = target_dtype == DType::i32 ? static_cast<const int32_t*>(target)[row]
                                                  : static_cast<const int64_t*>(target)[row];
    return at != ignore_index && at >= 0 && at < classes ? at : -1;
  }
  __device__ void report(int64_t row) const {
    const int64_t at = target_dtype == DType::i32 ? static_cast<const int32_t*>(target)[row]
                                                  : static_cast<const int64_t*>(target)[row];
    if (at != ignore_index && (at < 0 || at >= classes)) fault(at, classes);
  }
  template <class W>
  __device__ W weight_of(int64_t at) const {
    W w[1];
    weight.at(at, W(1), w);
    return w[0];
  }
  double __device__ smooth_share() const { return smoothing / static_cast<double>(classes); }
};

// body(pack's index, pack) over a row in memory, some packs on their way at once. Body may write over the
// row.
template <class T, int N, class Body>
__device__ void each_streamed(const RowLane& lane, const void* rows, const Body& body) {
  constexpr int kAhead = 4;
  const Pack<T, N>* row = static_cast<const Pack<T, N>*>(rows) + lane.row * lane.packs;
  for (int64_t i = lane.first; i < lane.packs; i += kAhead * lane.step) {
    Pack<T, N> ahead[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * lane.step < lane.packs) ahead[k] = row[i + k * lane.step];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * lane.step < lane.packs) body(i + k * lane.step, ahead[k]);
  }
}

template <class W>
struct MaxSum {
  W max, sum;  // sum of exp(x - max)
};

template <class W>
__device__ W finite_shift(W max) {
  return max == W(-INFINITY) ? W(0) : max;  // nothing but -inf so far: exponentials are 0
}

template <class T, int N>
__device__ MaxSum<wide_t<T>> max_sum_of(const RowLane& lane, const void* rows) {
  using W = wide_t<T>;
  W max = -INFINITY, sum = 0;
  each_streamed<T, N>(lane, rows, [&](int64_t, const Pack<T, N>& p) {
    W most = max;
#pragma unroll
    for (int j = 0; j < N; ++j) most = Max{}(most, widen(p.at[j]));
    const W shift = finite_shift(most);
    if (most != max) sum *= exponential<T>(max - shift);
    max = most;
#pragma unroll
    for (int j = 0; j < N; ++j) sum += exponential<T>(widen(p.at[j]) - shift);
  });
  const W most = reduce_group(max, lane.step, Max{});
  if (most != max) sum *= exponential<T>(max - finite_shift(most));
  return {most, reduce_group(sum, lane.step, Add{})};
}

// body(pack's index, logits, shares): the weighted, smoothed probabilities of the classes; of class targets
// only the part that smoothing spreads, so that  share = weight * (q * keep + smooth).
template <class T, int N, class Body>
__device__ void each_share(const LossArguments& a, const RowLane& lane, const Body& body) {
  using W = wide_t<T>;
  const WideVector q{a.probabilities ? a.target : nullptr, a.target_dtype};
  const W keep = static_cast<W>(1 - a.smoothing), smooth = static_cast<W>(a.smooth_share());
  each_streamed<T, N>(lane, a.logits, [&](int64_t i, const Pack<T, N>& p) {
    W w[N], share[N];
    a.weight.at(i, W(1), w);
    q.at(lane.row * lane.packs + i, W(0), share);
#pragma unroll
    for (int j = 0; j < N; ++j) share[j] = w[j] * (share[j] * keep + smooth);
    body(i, p, share);
  });
}

template <class W>
struct ShareSums {
  W near, shares;  // sums of share * (max - x) and of share
};

template <class T, int N>
__device__ ShareSums<wide_t<T>> share_sums(const LossArguments& a, const RowLane& lane, wide_t<T> max) {
  using W = wide_t<T>;
  W near = 0, shares = 0;
  each_share<T, N>(a, lane, [&](int64_t, const Pack<T, N>& p, const W(&share)[N]) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      near += share[j] * (max - widen(p.at[j]));
      shares += share[j];
    }
  });
  return {reduce_group(near, lane.step, Add{}), reduce_group(shares, lane.step, Add{})};
}

// The group's row. Rows that do not count have no packs, so that the group still takes part in reductions.
__device__ int64_t take_row(const LossArguments& a, const RowLane& lane) {
  if (!lane.there) return -1;
  if (a.probabilities) return 0;
  if (lane.first == 0) a.report(lane.row);
  return a.class_of(lane.row);
}

template <class T, int N, bool kSpreads>
__global__ void __launch_bounds__(kMostThreads, kSpreads ? 1 : 2) loss_kernel(LossArguments a) {
  using W = wide_t<T>;
  RowLane lane(a.rows, a.packs, a.group);
  const bool writes = lane.there && lane.first == 0;
  const int64_t at = take_row(a, lane);
  if (at < 0) lane.packs = 0;
  const MaxSum<W> sums = max_sum_of<T, N>(lane, a.logits);
  ShareSums<W> spread{0, 0};
  if constexpr (kSpreads) spread = share_sums<T, N>(a, lane, sums.max);
  if (!writes) return;
  const double log_sum = ::log(static_cast<double>(sums.sum)), max = static_cast<double>(sums.max);
  double loss = 0;
  if (at >= 0) {
    // share * (lse - x) as share * (max - x) + share * log(sum), so that large logits do not cancel.
    if constexpr (kSpreads) loss = spread.near + log_sum * spread.shares;
    if (!a.probabilities) {
      const T* x = static_cast<const T*>(a.logits) + lane.row * a.classes;
      const double below = max - static_cast<double>(widen(x[at]));
      loss += (1 - a.smoothing) * static_cast<double>(a.weight_of<W>(at)) * (log_sum + below);
    }
  }
  a.row_loss[lane.row] = loss;
  if (a.lse) static_cast<W*>(a.lse)[lane.row] = at < 0 ? W(0) : static_cast<W>(max + log_sum);
}

// dx = a softmax(x) - shares, all times the row's dy, where a is the sum of shares. The target's own share is
// taken off where its element passes by.
template <class T, int N, bool kSpreads>
__global__ void __launch_bounds__(kMostThreads, kSpreads ? 1 : 2) gradient_kernel(LossArguments a) {
  using W = wide_t<T>;
  RowLane lane(a.rows, a.packs, a.group);
  const int64_t at = take_row(a, lane), packs = lane.packs;
  if (at < 0) lane.packs = 0;
  Pack<T, N>* dx = static_cast<Pack<T, N>*>(a.dlogits) + lane.row * packs;
  W spread = 0;
  if constexpr (kSpreads) spread = share_sums<T, N>(a, lane, W(0)).shares;
  if (at < 0) {
    for (int64_t i = lane.first; i < packs; i += lane.step) dx[i] = Pack<T, N>{};
    return;
  }
  if (packs == 0) return;
  const double dy = static_cast<double>(static_cast<const W*>(a.dy)[a.dy_per_row ? lane.row : 0]);
  const double g = a.denominator ? dy / *a.denominator : dy;
  const double own = a.probabilities ? 0 : (1 - a.smoothing) * static_cast<double>(a.weight_of<W>(at));
  const W lse = static_cast<const W*>(a.lse)[lane.row];
  const W scale = static_cast<W>(g * (own + static_cast<double>(spread))), dy_row = static_cast<W>(g);
  const auto put = [&](int64_t i, const Pack<T, N>& p, const W(&share)[N]) {
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      W slope = scale * exponential<T>(widen(p.at[j]) - lse) - dy_row * share[j];
      if (!a.probabilities && i * N + j == at) slope -= static_cast<W>(g * own);
      out.at[j] = narrow<T>(slope);
    }
    dx[i] = out;
  };
  if constexpr (kSpreads) {
    each_share<T, N>(a, lane, put);
  } else {
    const W nothing[N] = {};
    each_streamed<T, N>(lane, a.logits, [&](int64_t i, const Pack<T, N>& p) { put(i, p, nothing); });
  }
}

// --- sums over rows: one block, in a fixed order

__device__ double add_block(double v) { return reduce_group(v, static_cast<int>(blockDim.x), Add{}); }

// The weights of the targets that count, or the number of rows of probabilities.
template <class W>
__device__ double denominator_of(const LossArguments& a) {
  if (a.probabilities) return static_cast<double>(a.rows);
  double sum = 0;
  for (int64_t row = threadIdx.x; row < a.rows; row += blockDim.x)
    if (const int64_t at = a.class_of(row); at >= 0) sum += static_cast<double>(a.weight_of<W>(at));
  return add_block(sum);
}

template <class W>
__global__ void __launch_bounds__(1024) denominator_kernel(LossArguments a, double* denominator) {
  const double sum = denominator_of<W>(a);
  if (threadIdx.x == 0) *denominator = sum;
}

template <class W>
__global__ void __launch_bounds__(1024) finish_kernel(LossArguments a, Reduction reduction, W* loss) {
  if (reduction == Reduction::kNone) {
    for (int64_t row = threadIdx.x + static_cast<int64_t>(blockIdx.x) * blockDim.x; row < a.rows;
         row += static_cast<int64_t>(gridDim.x) * blockDim.x)
      loss[row] = static_cast<W>(a.row_loss[row]);
    return;
  }
  double sum = 0;
  for (int64_t row = threadIdx.x; row < a.rows; row += blockDim.x) sum += a.row_loss[row];
  sum = add_block(sum);
  if (reduction == Reduction::kMean) sum /= denominator_of<W>(a);
  if (threadIdx.x == 0) *loss = static_cast<W>(sum);
}

// --- starting them

constexpr int kFinishers = 1024;

int64_t rows_of(const TensorView& logits) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < logits.rank; ++i) rows *= logits.dim(i);
  return rows;
}

template <class Op>
LossArguments arguments_of(const KernelContext& c, const Op& op, int weight_input) {
  LossArguments a;
  a.logits = c.input(0).data;
  a.target = c.input(1).data;
  a.target_dtype = c.input(1).dtype;
  a.probabilities = is_float(a.target_dtype);
  if (c.num_inputs() > weight_input) a.weight = WideVector::of(c.input(weight_input));
  a.rows = rows_of(c.input(0));
  a.classes = c.input(0).dim(-1);
  a.ignore_index = op.ignore_index;
  a.smoothing = op.label_smoothing;
  a.fault = launch_of(c).fault;
  return a;
}

// body(N, whether shares beside the target's matter, plan) with rows dealt to groups.
template <class T, class Body>
void with_rows(const KernelContext& c, LossArguments& a, const Body& body) {
  with_packs<T>(c, a.classes, [&](auto size) {
    a.packs = a.classes / size();
    const RowPlan plan = RowPlan::of(a.rows, a.packs, false, kMostThreads);
    a.group = plan.group;
    if (a.probabilities || a.smoothing != 0)
      body(size, std::true_type{}, plan);
    else
      body(size, std::false_type{}, plan);
  });
}

void run_loss(const KernelContext& c) {
  const auto& op = c.attributes<ops::CrossEntropy>();
  LossArguments a = arguments_of(c, op, 2);
  a.row_loss = reinterpret_cast<double*>(c.scratch);
  if (op.with_lse) a.lse = c.output(1).data;
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_rows<T>(c, a, [&](auto size, auto spreads, const RowPlan& plan) {
      start(c, loss_kernel<T, size(), spreads()>, plan.blocks, plan.threads, 0, a);
    });
    const int64_t blocks =
        op.reduction == Reduction::kNone ? std::min<int64_t>(blocks_for(a.rows, kFinishers), 1024) : 1;
    start(c, finish_kernel<wide_t<T>>, blocks, kFinishers, 0, a, op.reduction, c.output().as<wide_t<T>>());
  });
}

void run_gradient(const KernelContext& c) {
  if (c.output().numel() == 0) return;
  const auto& op = c.attributes<ops::CrossEntropyGrad>();
  LossArguments a = arguments_of(c, op, 4);
  a.lse = c.input(2).data;
  a.dy = c.input(3).data;
  a.dy_per_row = op.reduction == Reduction::kNone;
  a.dlogits = c.output().data;
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (op.reduction == Reduction::kMean) {
      auto* denominator = reinterpret_cast<double*>(c.scratch);
      start(c, denominator_kernel<wide_t<T>>, 1, kFinishers, 0, a, denominator);
      a.denominator = denominator;
    }
    with_rows<T>(c, a, [&](auto size, auto spreads, const RowPlan& plan) {
      start(c, gradient_kernel<T, size(), spreads()>, plan.blocks, plan.threads, 0, a);
    });
  });
}

int64_t loss_scratch(const KernelQuery& query) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < query.inputs[0].shape.rank(); ++i) rows *= query.inputs[0].shape[i].value();
  return rows * static_cast<int64_t>(sizeof(double));
}

int64_t gradient_scratch(const KernelQuery&) { return sizeof(double); }

// PyTorch's: logarithms are clamped at -100.
template <class T>
struct BceElement {
  const T *p, *t;
  T* y;
  __device__ void operator()(int64_t i) const {
    using W = wide_t<T>;
    const W low = -100, log_p = ::log(widen(p[i])), log_q = ::log1p(-widen(p[i])), target = widen(t[i]);
    y[i] = narrow<T>((target - 1) * (log_q < low ? low : log_q) - target * (log_p < low ? low : log_p));
  }
};

void run_bce(const KernelContext& c) {
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(c, c.output().numel(),
             BceElement<T>{c.input(0).as<const T>(), c.input(1).as<const T>(), c.output().as<T>()});
  });
}

constexpr KernelImpl kCrossEntropy[] = {{.name = "rows", .run = run_loss, .scratch_bytes = loss_scratch}};
constexpr KernelImpl kCrossEntropyGrad[] = {
    {.name = "rows", .run = run_gradient, .scratch_bytes = gradient_scratch}};
constexpr KernelImpl kBce[] = {{.name = "elements", .run = run_bce}};
constexpr OpKernels kOps[] = {
    {"cross_entropy", kCrossEntropy}, {"cross_entropy_grad", kCrossEntropyGrad}, {"bce", kBce}};

}  // namespace

std::span<const OpKernels> loss_kernels() { return kOps; }

}  // namespace genesis::cuda
