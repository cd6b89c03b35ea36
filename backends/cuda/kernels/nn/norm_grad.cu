// The gradients of layer_norm and rms_norm. Rows that fit into registers take one pass over memory (norm_gradient.h);
// for dweight or dbias a second small kernel adds the sums of its blocks in order. Longer rows, unaligned rows and
// f64 take more passes.
#include "backends/cuda/rows/norm_gradient.h"
#include "backends/cuda/runtime/chips.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/norm.h"

namespace genesis::cuda {
namespace {

template <class T, int N, class Row>
__device__ GradientSums<wide_t<T>> sums_of(const NormArguments& a, const RowLane& lane, const Row& x,
                                           const Row& dy) {
  using W = wide_t<T>;
  const auto [mean, inverse] = statistics_of<T, N>(a, lane, x);
  W g_sum = 0, gz_sum = 0;
  each_pack<1>(
      lane,
      [&, mean = mean](int64_t i, const Pack<T, N>& p, const Pack<T, N>& d) {
        W w[N];
        a.weight.at(i, W(1), w);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W g = widen(d.at[j]) * w[j];
          gz_sum += g * (widen(p.at[j]) - mean);
          g_sum += g;
        }
      },
      x, dy);
  const W n = static_cast<W>(a.n);
  gz_sum = reduce_group(gz_sum, lane.step, Add{}) / n * inverse;
  g_sum = a.centers ? reduce_group(g_sum, lane.step, Add{}) / n : W(0);
  return {mean, inverse, g_sum, gz_sum};
}

// Writes dx of a pack, plus the residual's pack, and the norm's output if it is wanted.
template <class T, int N>
__device__ void put_pack(const NormArguments& a, const GradientSums<wide_t<T>>& s, int64_t pack,
                         int64_t pack_of_row, const Pack<T, N>& x, const Pack<T, N>& dy) {
  using W = wide_t<T>;
  W w[N], b[N];
  a.weight.at(pack_of_row, W(1), w);
  Pack<T, N> past{}, dx, output;
  if (a.residual) past = static_cast<const Pack<T, N>*>(a.residual)[pack];
  if (a.output) a.bias.at(pack_of_row, W(0), b);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const W slope = s.dx(widen(x.at[j]), widen(dy.at[j]), w[j]);
    dx.at[j] = narrow<T>(a.residual ? slope + widen(past.at[j]) : slope);
    if (a.output) output.at[j] = narrow<T>((widen(x.at[j]) - s.mean) * s.inverse * w[j] + b[j]);
  }
  static_cast<Pack<T, N>*>(a.y)[pack] = dx;
  if (a.output) static_cast<Pack<T, N>*>(a.output)[pack] = output;
}

// --- rows that do not fit into registers: statistics and column sums if they are wanted, then dx

// Computes dx, and the norm's output if it is wanted.
struct NormGradientRow : NormArguments {
  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    using W = wide_t<T>;
    const typename RowOf<T, N, K>::type x_row(x, lane, shared, call.cached);
    const typename RowOf<T, N, K>::type dy_row(dy, lane, shared + call.cached, call.cached);
    const GradientSums<W> s = sums_of<T, N>(*this, lane, x_row, dy_row);
    each_pack<1>(
        lane,
        [&](int64_t i, const Pack<T, N>& p, const Pack<T, N>& d) {
          put_pack(*this, s, lane.row * lane.packs + i, i, p, d);
        },
        x_row, dy_row);
  }
};

struct StatisticsRow : NormArguments {
  void* statistics = nullptr;  // one per row

  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    const typename RowOf<T, N, K>::type x_row(x, lane, shared, call.cached);
    const auto s = statistics_of<T, N>(*this, lane, x_row);
    if (lane.first == 0 && lane.packs > 0) static_cast<Statistics<wide_t<T>>*>(statistics)[lane.row] = s;
  }
};

constexpr int kColumns = 32, kStripes = 8;

// Returns the number of chunks of rows whose column sums are computed separately.
int64_t column_chunks(int64_t rows, int64_t n) {
  constexpr int64_t kBlocks = 2048, kRows = 64;
  return std::max<int64_t>(1,
                           std::min(rows / kRows, kBlocks / blocks_for(std::max<int64_t>(n, 1), kColumns)));
}

int64_t statistics_bytes(int64_t rows, int64_t size) { return (rows * 2 * size + 15) / 16 * 16; }

// Block (columns, chunk): sums the columns over the rows of the chunk.
template <class T>
__global__ void column_sums_kernel(NormArguments a, int64_t rows, int64_t rows_each,
                                   const Statistics<wide_t<T>>* statistics, wide_t<T>* dweight,
                                   wide_t<T>* dbias) {
  using W = wide_t<T>;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const int64_t last = min(rows, (blockIdx.y + int64_t{1}) * rows_each);
  W dw = 0, db = 0;
  for (int64_t row = blockIdx.y * rows_each + threadIdx.y; column < a.n && row < last; row += kStripes) {
    const Statistics<W> s = statistics[row];
    const W d = widen(static_cast<const T*>(a.dy)[row * a.n + column]);
    dw += d * ((widen(static_cast<const T*>(a.x)[row * a.n + column]) - s.mean) * s.inverse);
    db += d;
  }
  dw = reduce_column<kColumns, kStripes>(dw, Add{});
  db = reduce_column<kColumns, kStripes>(db, Add{});
  if (threadIdx.y != 0 || column >= a.n) return;
  if (dweight) dweight[blockIdx.y * a.n + column] = dw;
  if (dbias) dbias[blockIdx.y * a.n + column] = db;
}

// --- the last step of both: adds sums[j] of n columns over blocks, always in the same order

// Threads of a block: few enough that it gets registers beside gradient_kernel's blocks and can wait there (PDL).
constexpr int kAddAcross = 4, kAddDown = 32, kAddThreads = kAddAcross * kAddDown;

template <class W>
__global__ void __launch_bounds__(kAddThreads, 16)
    add_blocks_kernel(const W* first, const W* second, int64_t blocks, int64_t n, W* first_sums,
                      W* second_sums) {
  begin_in_order();
  constexpr int V = 4;  // columns per thread
  __shared__ W of_warp[kAddThreads / 32][kAddAcross * V];
  const W* partial = blockIdx.y == 0 ? first : second;
  const int across = static_cast<int>(threadIdx.x) % kAddAcross,
            down = static_cast<int>(threadIdx.x) / kAddAcross;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kAddAcross * V, column = begin + across * V;
  const bool whole = n % V == 0 && sizeof(W) == 4;
  W sum[V] = {};
#pragma unroll 5
  for (int64_t b = down; b < blocks; b += kAddDown) {
    Pack<W, V> some{};
    if (whole && column < n)
      some = *reinterpret_cast<const Pack<W, V>*>(partial + b * n + column);
    else
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (column + j < n) some.at[j] = partial[b * n + column + j];
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] += some.at[j];
  }
  sum_lanes_apart(sum, kAddAcross);
  if (threadIdx.x % 32 < kAddAcross)
#pragma unroll
    for (int j = 0; j < V; ++j) of_warp[threadIdx.x / 32][across * V + j] = sum[j];
  __syncthreads();
  if (threadIdx.x >= kAddAcross * V || begin + threadIdx.x >= n) return;
  W total = 0;
#pragma unroll
  for (int warp = 0; warp < kAddThreads / 32; ++warp) total += of_warp[warp][threadIdx.x];
  (blockIdx.y == 0 ? first_sums : second_sums)[begin + threadIdx.x] = total;
}

// --- launches

// The results dweight and dbias, and the buffers of their partial sums.
template <class W>
struct AffineGradients {
  W *dweight = nullptr, *dbias = nullptr;
  W *dweight_sums = nullptr, *dbias_sums = nullptr;
  int64_t n = 0, sums = 0;

  void take_scratch(std::byte* scratch, int64_t blocks) {
    W* partial_sums = reinterpret_cast<W*>(scratch);
    if (dweight) dweight_sums = partial_sums;
    if (dbias) dbias_sums = partial_sums + (dweight ? blocks * n : 0);
  }
  bool wanted() const { return dweight || dbias; }
  void add_blocks(const KernelContext& c, int64_t blocks) const {
    if (!wanted()) return;
    const bool both = dweight && dbias;
    const dim3 grid(static_cast<unsigned>(blocks_for(n, kAddAcross * 4)), both ? 2 : 1);
    start_with_pdl(behind_own_kernel(c), add_blocks_kernel<W>, grid, dim3(kAddThreads), 0,
                   dweight ? dweight_sums : dbias_sums, dbias_sums, blocks, n, dweight ? dweight : dbias,
                   dbias);
  }
};

// Deals rows whose packs have `width` elements.
RowDeal deal_rows(int64_t rows, int64_t packs, int width) {
  return RowDeal::of(rows, packs, width, planned_chip().multiprocessors);
}

template <bool kCenter, class T, int N, int K>
void start_gradient(const KernelContext& c, const RowDeal& deal, const GradientCall& call, size_t bytes) {
  const auto kernel = gradient_kernel<kCenter, T, N, K>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  start_with_pdl(c, kernel, deal.count, deal.threads(), bytes, call);
}

// Starts the one-pass gradient; returns false if the rows are too long.
template <bool kCenter, class T, int N>
bool try_gradient(const KernelContext& c, const NormArguments& a, int64_t rows, AffineGradients<float>& to) {
  const int tensors = a.residual ? 3 : 2;
  RowDeal deal = deal_rows(rows, a.n / N, N);
  if (a.n > RowDeal::kLongest || !deal.fit(GradientCall::kStages, tensors, a.n, shared_limit())) return false;
  to.take_scratch(c.scratch, deal.count);
  const FeedCall feed{.data = {a.x, a.dy, a.residual},
                      .tensors = tensors,
                      .packs = static_cast<int>(a.n / N),
                      .group = deal.group,
                      .rows = rows};
  const GradientCall call{a, feed, to.dweight_sums, to.dbias_sums};
  const size_t bytes = deal.shared_bytes(GradientCall::kStages, tensors, a.n);
  if (deal.packs_each == 1) start_gradient<kCenter, T, N, 1>(c, deal, call, bytes);
  if (deal.packs_each == 2) start_gradient<kCenter, T, N, 2>(c, deal, call, bytes);
  if constexpr (4 * N <= RowDeal::kMaxElements)
    if (deal.packs_each == 4) start_gradient<kCenter, T, N, 4>(c, deal, call, bytes);
  to.add_blocks(c, deal.count);
  return true;
}

template <class T>
void start_column_sums(const KernelContext& c, const NormArguments& a, int64_t rows,
                       AffineGradients<wide_t<T>>& to) {
  using W = wide_t<T>;
  auto* statistics = reinterpret_cast<Statistics<W>*>(c.scratch);
  const int64_t chunks = column_chunks(rows, a.n);
  to.take_scratch(c.scratch + statistics_bytes(rows, sizeof(W)), chunks);
  start_rows<T, false>(c, rows, a.n, 1, StatisticsRow{a, statistics});
  const dim3 grid(static_cast<unsigned>(blocks_for(a.n, kColumns)), static_cast<unsigned>(chunks));
  column_sums_kernel<T><<<grid, dim3(kColumns, kStripes), 0, launch_of(c).stream>>>(
      a, rows, blocks_for(rows, chunks), statistics, to.dweight_sums, to.dbias_sums);
  to.add_blocks(c, chunks);
}

template <class Op>
constexpr bool kHasBias = requires(const Op& op) {
  op.has_bias;
};

template <class Op>
NormArguments gradient_arguments(const KernelContext& c, const Op& op) {
  NormArguments a = arguments_of(c, op.eps, op.num_axes, std::is_same_v<Op, ops::LayerNormGrad>);
  a.dy = c.input(1).data;
  if (op.has_weight) a.weight = WideVector::of(c.input(2));
  if constexpr (kHasBias<Op>)
    if (op.has_bias) a.bias = WideVector::of(c.input(op.has_weight ? 3 : 2));
  if (op.has_residual) a.residual = c.inputs.back().data;
  if (op.with_output) a.output = c.outputs.back().data;
  return a;
}

template <bool kCenter>
void run_backward(const KernelContext& c, const NormArguments& a, bool want_weight, bool want_bias) {
  if (a.n == 0) return;
  const int64_t rows = c.input(0).numel() / a.n;
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = wide_t<T>;
    AffineGradients<W> to{.n = a.n};
    if (want_weight) to.dweight = c.output(1).as<W>();
    if (want_bias) to.dbias = c.output(want_weight ? 2 : 1).as<W>();
    if (rows == 0) return to.add_blocks(c, 0);
    with_packs<T>(c, a.n, [&](auto size) {
      constexpr int N = size();
      if constexpr (N > 1)
        if (try_gradient<kCenter, T, N>(c, a, rows, to)) return;
      if (to.wanted()) start_column_sums<T>(c, a, rows, to);  // comes first, because dx may overwrite x or dy
      start_rows<T, false>(c, rows, a.n, 2, NormGradientRow{a});
    });
  });
}

// Returns enough scratch memory for both methods: the choice depends on alignment, which is not known yet.
template <class Op>
int64_t backward_scratch(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  const auto op = from_attributes<Op>(query.attributes);
  const int64_t n = normalized_size(x.shape.sizes(), op.num_axes);
  const auto vectors = static_cast<int64_t>(query.outputs.size()) - 1 - op.with_output;
  if (n == 0 || vectors == 0) return 0;
  const int64_t rows = x.numel() / n, size = x.dtype == DType::f64 ? 8 : 4;
  const int pack = static_cast<int>(16 / size_of(x.dtype));
  int64_t blocks = 0;
  if (n % pack == 0 && n <= RowDeal::kLongest) blocks = deal_rows(rows, n / pack, pack).count;
  const CheckedSize one = CheckedSize(n) * vectors * size;
  return std::max(one * blocks, one * column_chunks(rows, n) + statistics_bytes(rows, size)).value();
}

void layer_norm_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::LayerNormGrad>();
  run_backward<true>(c, gradient_arguments(c, op), op.want_weight, op.want_bias);
}

void rms_norm_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::RmsNormGrad>();
  run_backward<false>(c, gradient_arguments(c, op), op.want_weight, false);
}

constexpr OpKernel kOps[] = {
    {"layer_norm_grad",
     {.name = "rows", .run = layer_norm_grad, .scratch_bytes = backward_scratch<ops::LayerNormGrad>}},
    {"rms_norm_grad",
     {.name = "rows", .run = rms_norm_grad, .scratch_bytes = backward_scratch<ops::RmsNormGrad>}}};

}  // namespace

std::span<const OpKernel> norm_grad_kernels() { return kOps; }

}  // namespace genesis::cuda
