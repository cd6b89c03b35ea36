// cross_entropy and its gradient. The forward pass reads the logits once: into registers (loss_rows.h) or, if rows
// are long, with an online softmax. The gradient reads and writes them once. Losses are added in f64 and in a fixed
// order. Label smoothing and probability targets read a row once more, from cache.
#include "backends/cuda/rows/loss_rows.h"

namespace genesis::cuda {
namespace {

// Calls body(index of the pack, pack) for a row in memory, with kAhead loads in flight at once. `body` may overwrite
// the row.
template <class T, int N, int kAhead, class Body>
__device__ void each_from_memory(const RowLane& lane, const void* rows, const Body& body) {
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

// Loads in flight for rows that are read once. Long bodies use kFewAhead, and double has one, to limit compile time.
template <class T>
constexpr int kManyAhead = std::is_same_v<T, double> ? 1 : 4;
template <class T>
constexpr int kFewAhead = std::is_same_v<T, double> ? 1 : 2;

template <class T, int N>
__device__ OnlineSoftmax<ShiftedExponential<T>, wide_t<T>> softmax_of(const RowLane& lane, const void* rows) {
  OnlineSoftmax<ShiftedExponential<T>, wide_t<T>> softmax;
  each_from_memory<T, N, kManyAhead<T>>(lane, rows, [&](int64_t, const Pack<T, N>& p) {
    softmax.template add<N>([&](int j) { return widen(p.at[j]); });
  });
  softmax.merge_group(lane.step);
  return softmax;
}

// Calls body(index of the pack, logits, shares). The shares are the weighted and smoothed probabilities of the
// classes:  share = weight * (q * keep + smooth). For class targets q is 0, so only the smoothed part is in the
// shares.
template <class T, int N, class Body>
__device__ void each_share(const LossArguments& a, const RowLane& lane, const Body& body) {
  using W = wide_t<T>;
  const WideVector q{a.probabilities ? a.target : nullptr, a.target_dtype};
  const W keep = static_cast<W>(1 - a.smoothing), smooth = static_cast<W>(a.smooth_share());
  each_from_memory<T, N, kFewAhead<T>>(lane, a.logits, [&](int64_t i, const Pack<T, N>& p) {
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

// Returns the target class of the group's row, or -1 if the row does not count. For such a row the caller sets
// lane.packs to 0, so that the group still takes part in reductions.
__device__ int64_t take_row(const LossArguments& a, const RowLane& lane) {
  if (!lane.there) return -1;
  if (a.probabilities) return 0;
  const int64_t target = a.target_of(lane.row);
  if (lane.first == 0) a.report(target);
  return a.class_of(target);
}

// kSpreads: a.spreads may be true.
template <class T, int N, bool kSpreads>
__device__ void add_row_loss(const LossArguments& a, RowLane lane, LossTotals& totals) {
  using W = wide_t<T>;
  const bool writes = lane.there && lane.first == 0;
  const int64_t at = take_row(a, lane);
  if (at < 0) lane.packs = 0;
  const auto softmax = softmax_of<T, N>(lane, a.logits);
  ShareSums<W> spread{0, 0};
  if constexpr (kSpreads)
    if (a.spreads) spread = share_sums<T, N>(a, lane, softmax.max);
  if (!writes) return;
  const double log_sum = ::log(static_cast<double>(softmax.sum)), max = static_cast<double>(softmax.max);
  double loss = 0, weight = 1;
  // Computes share * (lse - x) as share * (max - x) + share * log(sum), so that large logits do not cancel.
  if (kSpreads && a.spreads) loss = spread.near + log_sum * spread.shares;
  const int64_t place = a.own.place_of(at);
  if (!a.probabilities && place >= 0) {
    const T* x = static_cast<const T*>(a.logits) + lane.row * a.classes;
    const double below = max - static_cast<double>(widen(x[place]));
    weight = static_cast<double>(a.weight_of<W>(place));
    loss += (1 - a.smoothing) * weight * (log_sum + below);
  }
  put_row<W>(a, lane.row, at >= 0, loss, max + log_sum, weight, totals);
}

// Number of blocks whose registers must fit into a multiprocessor together.
template <int N, bool kSpreads>
constexpr int loss_blocks_at_once = kSpreads&& N > 1 ? 1 : 2;

template <class T, int N, bool kSpreads>
__global__ void __launch_bounds__(kLossThreads, loss_blocks_at_once<N, kSpreads>)
    loss_kernel(const LossArguments a) {
  begin_in_order();
  RowLane lane(a.rows, a.packs, a.group);
  LossTotals totals{0, 0};
  const int64_t last = min(a.rows, (blockIdx.x + int64_t{1}) * a.rows_each);
  for (int64_t base = blockIdx.x * a.rows_each; base < last; base += blockDim.x / a.group) {
    const int64_t row = base + threadIdx.x / a.group;
    lane.there = row < last;
    lane.row = lane.there ? row : 0;
    lane.packs = lane.there ? a.packs : 0;
    add_row_loss<T, N, kSpreads>(a, lane, totals);
  }
  put_partial(a, totals);
}

// Computes dx = a softmax(x) - shares, times the row's dy, where a is the sum of the shares. The target's own share
// is subtracted at its element.
template <class T, int N, bool kSpreads>
__global__ void __launch_bounds__(kLossThreads, loss_blocks_at_once<N, kSpreads>)
    gradient_kernel(const LossArguments a) {
  begin_in_order();
  using W = wide_t<T>;
  const double divisor = a.divisor();
  RowLane lane(a.rows, a.packs, a.group);
  const int64_t at = take_row(a, lane), packs = lane.packs, place = a.own.place_of(at);
  if (at < 0) lane.packs = 0;
  Pack<T, N>* dx = static_cast<Pack<T, N>*>(a.dlogits) + lane.row * packs;
  W spread = 0;
  if constexpr (kSpreads)
    if (a.spreads) spread = share_sums<T, N>(a, lane, W(0)).shares * static_cast<W>(a.shards());
  if (at < 0) {
    for (int64_t i = lane.first; i < packs; i += lane.step) dx[i] = Pack<T, N>{};
    return;
  }
  if (packs == 0) return;
  const double g = static_cast<double>(a.slope_of<W>(lane.row, divisor));
  const double own = a.probabilities ? 0 : (1 - a.smoothing) * static_cast<double>(a.weight_of<W>(at));
  const W lse = static_cast<const W*>(a.lse)[lane.row];
  const W scale = static_cast<W>(g * (own + static_cast<double>(spread))), dy_row = static_cast<W>(g);
  const auto put = [&](int64_t i, const Pack<T, N>& p, const W(&share)[N]) {
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      W slope = scale * exponential<T>(widen(p.at[j]) - lse) - dy_row * share[j];
      if (!a.probabilities && i * N + j == place) slope -= static_cast<W>(g * own);
      out.at[j] = narrow<T>(slope);
    }
    dx[i] = out;
  };
  if constexpr (kSpreads)
    if (a.spreads) return each_share<T, N>(a, lane, put);
  if constexpr (!kSpreads || N == 1) {
    const W nothing[N] = {};
    each_from_memory<T, N, kManyAhead<T>>(lane, a.logits,
                                          [&](int64_t i, const Pack<T, N>& p) { put(i, p, nothing); });
  }
}

// --- sums over blocks

constexpr int kAdders = 512;  // threads of a block

// Adds the losses of all blocks; one block does this.
template <class W>
__global__ void __launch_bounds__(kAdders) add_losses_kernel(const LossArguments a, int blocks) {
  begin_in_order();
  constexpr int kFlight = 4;  // loads in flight at once
  LossTotals all{0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kFlight * kAdders) {
    LossTotals some[kFlight] = {};
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (i + u * kAdders < blocks) some[u] = a.partial[i + u * kAdders];
#pragma unroll
    for (int u = 0; u < kFlight; ++u) {
      all.loss += some[u].loss;
      all.weight += some[u].weight;
    }
  }
  all.loss = reduce_group<0>(all.loss, kAdders, Add{});
  all.weight = reduce_group<1>(all.weight, kAdders, Add{});
  if (threadIdx.x == 0)
    *static_cast<W*>(a.loss) =
        static_cast<W>(a.reduction == Reduction::kMean ? all.loss / all.weight : all.loss);
}

// Computes the divisor of a mean as partial sums: the sum of the weights of the targets that count, or the number of
// rows if targets are probabilities.
template <class W>
__global__ void __launch_bounds__(kAdders) denominator_kernel(const LossArguments a, double* sums) {
  begin_in_order();
  double sum = 0;
  if (a.probabilities && blockIdx.x == 0 && threadIdx.x == 0) sum = static_cast<double>(a.rows);
  if (!a.probabilities) {
#pragma unroll 4
    for (int64_t row = blockIdx.x * int64_t{kAdders} + threadIdx.x; row < a.rows;
         row += gridDim.x * int64_t{kAdders})
      if (const int64_t at = a.class_of(a.target_of(row)); at >= 0)
        sum += static_cast<double>(a.weight_of<W>(at));
  }
  sum = reduce_group<0>(sum, kAdders, Add{});
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// --- launches

constexpr int64_t kMaxBlocks = 8192;  // most blocks that leave partial losses

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
  a.own = op.part.of(a.classes);
  a.ignore_index = op.ignore_index;
  a.smoothing = op.label_smoothing;
  a.spreads = a.probabilities || a.smoothing != 0;
  a.reduction = op.reduction;
  a.fault = launch_of(c).fault;
  return a;
}

// The distribution of rows to blocks; depends on their number and length alone. `in_registers` is the number of packs in a
// thread's registers.
struct LossPlan {
  int64_t blocks;
  int threads, in_registers;
};

LossPlan deal_rows(LossArguments& a, bool registers, int max_packs) {
  RowPlan rows = RowPlan::of(a.rows, a.packs, registers, kLossThreads, max_packs);
  if (rows.in_registers == 8 && rows.group == 32) rows.threads = 256;
  const int64_t at_once = rows.threads / rows.group;
  a.group = rows.group;
  a.rows_each = std::max<int64_t>(1, blocks_for(a.rows, at_once * kMaxBlocks)) * at_once;
  return {std::max<int64_t>(1, blocks_for(a.rows, a.rows_each)), rows.threads, rows.in_registers};
}

// Calls body.in_registers<T, N, K>(plan) if a row fits into registers with K packs per thread, and
// body.from_memory<T, N, kSpreads>(plan) otherwise. kSpreads: classes other than the target may have shares.
template <class T, class Body>
void with_rows(const KernelContext& c, LossArguments& a, const Body& body) {
  with_packs<T>(c, a.classes, [&](auto size) {
    constexpr int N = size();
    constexpr bool kMayUseRegisters = N > 1 && !std::is_same_v<T, double>;
    a.packs = a.classes / N;
    const LossPlan plan = deal_rows(a, kMayUseRegisters && !a.spreads,
                                    kMayUseRegisters && sizeof(T) == 4 && !a.spreads ? 8 : 4);
    if constexpr (N == 1) return body.template from_memory<T, N, true>(plan);
    if (a.spreads) return body.template from_memory<T, N, true>(plan);
    if constexpr (kMayUseRegisters) {
      if constexpr (sizeof(T) == 4)
        if (plan.in_registers > 4) return body.template in_registers<T, N, 8>(plan);
      if (plan.in_registers > 2) return body.template in_registers<T, N, 4>(plan);
      if (plan.in_registers > 0) return body.template in_registers<T, N, 2>(plan);
    }
    if constexpr (N > 1) body.template from_memory<T, N, false>(plan);
  });
}

struct StartLoss {
  const KernelContext& c;
  const LossArguments& a;
  template <class T, int N, int K>
  void in_registers(const LossPlan& plan) const {
    start_with_pdl(c, register_loss_kernel<T, N, K>, plan.blocks, plan.threads, 0, a);
    add_losses<T>(plan);
  }
  template <class T, int N, bool kSpreads>
  void from_memory(const LossPlan& plan) const {
    start_with_pdl(c, loss_kernel<T, N, kSpreads>, plan.blocks, plan.threads, 0, a);
    add_losses<T>(plan);
  }
  template <class T>
  void add_losses(const LossPlan& plan) const {
    if (a.reduction != Reduction::kNone)
      start_with_pdl(behind_own_kernel(c), add_losses_kernel<wide_t<T>>, 1, kAdders, 0, a, plan.blocks);
  }
};

// Starts the gradient kernels, in which each group has one row.
struct StartGradient {
  const KernelContext& c;
  const LossArguments& a;
  Launch launch;
  template <class T, int N, int K>
  void in_registers(const LossPlan& plan) const {
    start(register_gradient_kernel<T, N, K>, plan);
  }
  template <class T, int N, bool kSpreads>
  void from_memory(const LossPlan& plan) const {
    start(gradient_kernel<T, N, kSpreads>, plan);
  }
  void start(void (*kernel)(LossArguments), const LossPlan& plan) const {
    const int64_t blocks = blocks_for(a.rows, plan.threads / a.group);
    start_with_pdl(launch, kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(plan.threads), 0, a);
  }
};

void run_loss(const KernelContext& c) {
  const auto& op = c.attributes<ops::CrossEntropy>();
  LossArguments a = arguments_of(c, op, 2);
  a.loss = c.output().data;
  a.partial = reinterpret_cast<LossTotals*>(c.scratch);
  if (op.with_lse) a.lse = c.output(1).data;
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    with_rows<typename decltype(tag)::type>(c, a, StartLoss{c, a});
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
    if (op.reduction != Reduction::kMean) return with_rows<T>(c, a, StartGradient{c, a, launch_of(c)});
    auto* sums = reinterpret_cast<double*>(c.scratch);
    start_with_pdl(c, denominator_kernel<wide_t<T>>, kDenominatorParts, kAdders, 0, a, sums);
    a.denominators = sums;
    with_rows<T>(c, a, StartGradient{c, a, behind_own_kernel(c)});
  });
}

int64_t loss_scratch(const KernelQuery&) { return kMaxBlocks * static_cast<int64_t>(sizeof(LossTotals)); }

int64_t gradient_scratch(const KernelQuery&) {
  return kDenominatorParts * static_cast<int64_t>(sizeof(double));
}

// Binary cross-entropy as PyTorch computes it: logarithms are clamped at -100.
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

constexpr OpKernel kOps[] = {
    {"cross_entropy", {.name = "rows", .run = run_loss, .scratch_bytes = loss_scratch}},
    {"cross_entropy_grad", {.name = "rows", .run = run_gradient, .scratch_bytes = gradient_scratch}},
    {"bce", {.name = "elements", .run = run_bce}}};

}  // namespace

std::span<const OpKernel> loss_kernels() { return kOps; }

}  // namespace genesis::cuda
