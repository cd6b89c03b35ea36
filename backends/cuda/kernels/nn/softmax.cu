// Softmax, log-softmax, causal softmax and their gradients. Along the last axis a row is read once and stays in
// registers or shared memory. Along another axis a thread has columns, so that a warp reads neighboring elements.
#include "backends/common/row_shape.h"
#include "backends/cuda/device/exponential.h"
#include "backends/cuda/rows/rows.h"
#include "schema/ops/nn/softmax.h"

namespace genesis::cuda {
namespace {

struct SoftmaxArguments {
  const void* x = nullptr;   // in gradients, the output y
  const void* dy = nullptr;  // gradients only
  void* y = nullptr;         // output, or dx; may be x or dy
  double scale = 1;
  bool log = false;
  bool causal = false;
  int64_t queries = 1;  // causal: rows per matrix

  // Returns how many of a row's n elements are visible.
  __device__ int64_t visible(int64_t row, int64_t n) const {
    const int64_t seen = row % queries + (n - queries) + 1;
    return seen < 0 ? 0 : seen < n ? seen : n;
  }
};

// The masks that a kernel supports: none, causal only, or either.
enum class MaskKind { kAll, kCausal, kEither };

// The number of visible elements of a row.
template <MaskKind kMask>
struct RowMask {
  bool causal;
  int64_t seen = 0;  // visible elements, from the row's first on

  __device__ RowMask(const SoftmaxArguments& a, int64_t row, int64_t n)
      : causal(kMask == MaskKind::kCausal || (kMask == MaskKind::kEither && a.causal)) {
    if constexpr (kMask != MaskKind::kAll) seen = causal ? a.visible(row, n) : n;
  }
  // Returns how many of the N elements of pack i are visible.
  template <int N>
  __device__ int of_pack(int64_t i) const {
    if constexpr (kMask == MaskKind::kAll) return N;
    return static_cast<int>(max(int64_t{0}, min(int64_t{N}, seen - i * N)));
  }
};

template <MaskKind kMask>
struct SoftmaxRow : SoftmaxArguments {
  SoftmaxRow<MaskKind::kEither> in_shared() const { return {*this}; }

  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    using W = wide_t<T>;
    const RowMask<kMask> mask(*this, lane.row, call.packs * N);
    const bool is_log = kMask != MaskKind::kCausal && log;
    const typename RowOf<T, N, K>::type x_row(x, lane, shared, call.cached);
    W largest = -INFINITY;
    each_pack(
        lane,
        [&](int64_t i, const Pack<T, N>& p) {
          const int seen = mask.template of_pack<N>(i);
#pragma unroll
          for (int j = 0; j < N; ++j)
            if (j < seen) largest = Max{}(largest, widen(p.at[j]));
        },
        x_row);
    largest = reduce_group(largest, lane.step, Max{});
    const ScaledPower<T> power(W(scale), largest);
    W total = 0;
    each_pack(
        lane,
        [&](int64_t i, const Pack<T, N>& p) {
          const int seen = mask.template of_pack<N>(i);
#pragma unroll
          for (int j = 0; j < N; ++j)
            if (j < seen) total += power(p.at[j]);
        },
        x_row);
    total = reduce_group(total, lane.step, Add{});
    const W inverse = W(1) / total, log_total = is_log ? W(::log(total)) : W(0);
    const T unseen = narrow<T>(mask.causal && mask.seen == 0 ? W(NAN) : W(0));
    Pack<T, N>* to = static_cast<Pack<T, N>*>(y) + lane.row * lane.packs;
    each_pack(
        lane,
        [&](int64_t i, const Pack<T, N>& p) {
          Pack<T, N> out;
          const int seen = mask.template of_pack<N>(i);
#pragma unroll
          for (int j = 0; j < N; ++j) {
            out.at[j] = narrow<T>(is_log ? widen(p.at[j]) - largest - log_total : power(p.at[j]) * inverse);
            if (j >= seen) out.at[j] = unseen;
          }
          to[i] = out;
        },
        x_row);
  }
};

// Returns an element of dx = scale y (dy - sum(y dy)), or of dy - exp(y) sum(dy) for log-softmax.
template <class T>
__device__ T softmax_slope(T y, T dy, wide_t<T> dot, wide_t<T> scale, bool log) {
  using W = wide_t<T>;
  const W v = widen(y), g = widen(dy);
  return narrow<T>(log ? g - exponential<T>(v) * dot : scale * v * (g - dot));
}

template <MaskKind kMask>
struct GradientRow : SoftmaxArguments {
  GradientRow<MaskKind::kEither> in_shared() const { return {*this}; }

  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    using W = wide_t<T>;
    const RowMask<kMask> mask(*this, lane.row, call.packs * N);
    const bool is_log = kMask != MaskKind::kCausal && log;
    const typename RowOf<T, N, K>::type y_row(x, lane, shared, call.cached);
    const typename RowOf<T, N, K>::type dy_row(dy, lane, shared + call.cached, call.cached);
    W dot = 0;
    each_pack(
        lane,
        [&](int64_t i, const Pack<T, N>& v, const Pack<T, N>& g) {
          const int seen = mask.template of_pack<N>(i);
#pragma unroll
          for (int j = 0; j < N; ++j)
            if (j < seen) dot += is_log ? widen(g.at[j]) : widen(g.at[j]) * widen(v.at[j]);
        },
        y_row, dy_row);
    dot = reduce_group(dot, lane.step, Add{});
    Pack<T, N>* to = static_cast<Pack<T, N>*>(y) + lane.row * lane.packs;
    each_pack(
        lane,
        [&](int64_t i, const Pack<T, N>& v, const Pack<T, N>& g) {
          Pack<T, N> out;
          const int seen = mask.template of_pack<N>(i);
#pragma unroll
          for (int j = 0; j < N; ++j)
            out.at[j] = j < seen ? softmax_slope(v.at[j], g.at[j], dot, W(scale), is_log) : narrow<T>(W(0));
          to[i] = out;
        },
        y_row, dy_row);
  }
};

// --- an axis other than the last: a block has 32 columns, and kStripes threads share each column

constexpr int kColumns = 32, kStripes = 8;

template <class T, class Body>
__device__ void each_in_column(int64_t n, bool inside, const Body& body) {
  for (int64_t r = threadIdx.y; inside && r < n; r += kStripes) body(r);
}

template <class T>
__global__ void column_kernel(SoftmaxArguments a, int64_t n, int64_t inner, int64_t blocks_per_outer) {
  using W = wide_t<T>;
  const int64_t column = blockIdx.x % blocks_per_outer * kColumns + threadIdx.x;
  const int64_t at = blockIdx.x / blocks_per_outer * n * inner + column;
  const bool inside = column < inner;
  const T* x = static_cast<const T*>(a.x) + at;
  T* y = static_cast<T*>(a.y) + at;
  if (a.dy) {
    const T* dy = static_cast<const T*>(a.dy) + at;
    W dot = 0;
    each_in_column<T>(n, inside, [&](int64_t r) {
      dot += a.log ? widen(dy[r * inner]) : widen(dy[r * inner]) * widen(x[r * inner]);
    });
    dot = reduce_column<kColumns, kStripes>(dot, Add{});
    each_in_column<T>(n, inside, [&](int64_t r) {
      y[r * inner] = softmax_slope(x[r * inner], dy[r * inner], dot, W(a.scale), a.log);
    });
    return;
  }
  W largest = -INFINITY, total = 0;
  each_in_column<T>(n, inside, [&](int64_t r) { largest = Max{}(largest, widen(x[r * inner])); });
  largest = reduce_column<kColumns, kStripes>(largest, Max{});
  each_in_column<T>(n, inside, [&](int64_t r) { total += exponential<T>(widen(x[r * inner]) - largest); });
  total = reduce_column<kColumns, kStripes>(total, Add{});
  const W inverse = W(1) / total, log_total = a.log ? W(::log(total)) : W(0);
  each_in_column<T>(n, inside, [&](int64_t r) {
    const W shifted = widen(x[r * inner]) - largest;
    y[r * inner] = narrow<T>(a.log ? shifted - log_total : exponential<T>(shifted) * inverse);
  });
}

// --- launches

template <class T>
void start_columns(const KernelContext& c, const SoftmaxArguments& a, const RowShape& shape) {
  const int64_t per_outer = blocks_for(shape.inner, kColumns);
  column_kernel<T>
      <<<static_cast<unsigned>(shape.outer * per_outer), dim3(kColumns, kStripes), 0, launch_of(c).stream>>>(
          a, shape.n, shape.inner, per_outer);
}

void run_softmax(const KernelContext& c, SoftmaxArguments a, int64_t axis, bool causal) {
  const TensorView& x = c.input(0);
  if (x.numel() == 0) return;
  const RowShape shape = row_shape(x.sizes(), axis);
  a.x = x.data;
  a.y = c.output().data;
  a.dy = c.num_inputs() > 1 ? c.input(1).data : nullptr;
  a.causal = causal;
  if (causal) a.queries = x.dim(-2);
  dispatch_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (shape.inner != 1) return start_columns<T>(c, a, shape);
    if (a.dy && causal) return start_rows<T>(c, shape.outer, shape.n, 2, GradientRow<MaskKind::kCausal>{a});
    if (a.dy) return start_rows<T>(c, shape.outer, shape.n, 2, GradientRow<MaskKind::kAll>{a});
    if (causal) return start_rows<T>(c, shape.outer, shape.n, 1, SoftmaxRow<MaskKind::kCausal>{a});
    start_rows<T>(c, shape.outer, shape.n, 1, SoftmaxRow<MaskKind::kAll>{a});
  });
}

void softmax(const KernelContext& c) { run_softmax(c, {}, c.attributes<ops::Softmax>().axis, false); }
void log_softmax(const KernelContext& c) {
  run_softmax(c, {.log = true}, c.attributes<ops::LogSoftmax>().axis, false);
}
void causal_softmax(const KernelContext& c) {
  run_softmax(c, {.scale = c.attributes<ops::CausalSoftmax>().scale}, -1, true);
}
void softmax_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::SoftmaxGrad>();
  run_softmax(c, {.scale = op.scale}, op.axis, op.causal);
}
void log_softmax_grad(const KernelContext& c) {
  run_softmax(c, {.log = true}, c.attributes<ops::LogSoftmaxGrad>().axis, false);
}

constexpr OpKernel kOps[] = {{"softmax", {.name = "rows", .run = softmax}},
                             {"log_softmax", {.name = "rows", .run = log_softmax}},
                             {"causal_softmax", {.name = "rows", .run = causal_softmax}},
                             {"softmax_grad", {.name = "rows", .run = softmax_grad}},
                             {"log_softmax_grad", {.name = "rows", .run = log_softmax_grad}}};

}  // namespace

std::span<const OpKernel> softmax_kernels() { return kOps; }

}  // namespace genesis::cuda
