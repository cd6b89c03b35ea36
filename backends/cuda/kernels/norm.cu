// layer_norm, rms_norm and their gradients, each in one pass over memory. The gradient gives a block many
// rows: its threads keep sums of dweight and dbias for their columns in registers, and a second small kernel
// adds the blocks' sums in order. Rows too long for registers take more passes.
#include "backends/cuda/rows.h"
#include "backends/cuda/wide_vector.h"
#include "schema/ops/norm.h"

namespace genesis::cuda {
namespace {

struct NormArguments {
  const void* x = nullptr;
  const void* dy = nullptr;        // gradients only
  const void* residual = nullptr;  // gradients: added to dx; or null
  void* y = nullptr;               // or dx; may be x or dy
  WideVector weight, bias;
  int64_t n = 1;
  double eps = 0;
};

template <class W>
struct Statistics {
  W mean, inverse;  // 1 / sqrt(variance + eps)
};

template <bool kCenter, class T, int N, class Row>
__device__ Statistics<wide_t<T>> statistics_of(const NormArguments& a, const RowLane& lane, const Row& x) {
  using W = wide_t<T>;
  W mean = 0;
  if constexpr (kCenter) {
    each_pack(
        lane,
        [&](int64_t, const Pack<T, N>& p) {
#pragma unroll
          for (int j = 0; j < N; ++j) mean += widen(p.at[j]);
        },
        x);
    mean = reduce_group(mean, lane.step, Add{}) / static_cast<W>(a.n);
  }
  W squares = 0;
  each_pack(
      lane,
      [&](int64_t, const Pack<T, N>& p) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W d = widen(p.at[j]) - mean;
          squares += d * d;
        }
      },
      x);
  squares = reduce_group(squares, lane.step, Add{});
  return {mean, W(1) / sqrt(squares / static_cast<W>(a.n) + static_cast<W>(a.eps))};
}

template <bool kCenter>
struct NormRow : NormArguments {
  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    using W = wide_t<T>;
    const typename RowOf<T, N, K>::type x_row(x, lane, shared, call.cached);
    const auto [mean, inverse] = statistics_of<kCenter, T, N>(*this, lane, x_row);
    Pack<T, N>* to = static_cast<Pack<T, N>*>(y) + lane.row * lane.packs;
    each_pack(
        lane,
        [&, mean = mean, inverse = inverse](int64_t i, const Pack<T, N>& p) {
          W w[N], b[N];
          weight.at(i, W(1), w);
          bias.at(i, W(0), b);
          Pack<T, N> out;
#pragma unroll
          for (int j = 0; j < N; ++j) out.at[j] = narrow<T>((widen(p.at[j]) - mean) * inverse * w[j] + b[j]);
          to[i] = out;
        },
        x_row);
  }
};

// What the gradient of a row needs besides its elements: with g = dy weight and z the normalised row,
// dx = (g - mean(g) - z mean(g z)) / sigma; no mean(g) without a centre.
template <class W>
struct GradientSums {
  W mean, inverse, mean_g, mean_gz;

  template <bool kCenter>
  __device__ W dx(W x, W dy, W weight) const {
    const W g = kCenter ? dy * weight - mean_g : dy * weight;
    return (g - (x - mean) * inverse * mean_gz) * inverse;
  }
};

template <bool kCenter, class T, int N, class Row>
__device__ GradientSums<wide_t<T>> sums_of(const NormArguments& a, const RowLane& lane, const Row& x,
                                           const Row& dy) {
  using W = wide_t<T>;
  const auto [mean, inverse] = statistics_of<kCenter, T, N>(a, lane, x);
  W g_sum = 0, gz_sum = 0;
  each_pack(
      lane,
      [&, mean = mean](int64_t i, const Pack<T, N>& p, const Pack<T, N>& d) {
        W w[N];
        a.weight.at(i, W(1), w);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W g = widen(d.at[j]) * w[j];
          gz_sum += g * (widen(p.at[j]) - mean);
          if (kCenter) g_sum += g;
        }
      },
      x, dy);
  const W n = static_cast<W>(a.n);
  gz_sum = reduce_group(gz_sum, lane.step, Add{}) / n * inverse;
  if (kCenter) g_sum = reduce_group(g_sum, lane.step, Add{}) / n;
  return {mean, inverse, g_sum, gz_sum};
}

// dx of a pack, and the residual's pack on top.
template <bool kCenter, class T, int N>
__device__ Pack<T, N> dx_of(const NormArguments& a, const GradientSums<wide_t<T>>& s, int64_t pack,
                            int64_t pack_of_row, const Pack<T, N>& x, const Pack<T, N>& dy) {
  using W = wide_t<T>;
  W w[N];
  a.weight.at(pack_of_row, W(1), w);
  Pack<T, N> past{}, out;
  if (a.residual) past = static_cast<const Pack<T, N>*>(a.residual)[pack];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const W dx = s.template dx<kCenter>(widen(x.at[j]), widen(dy.at[j]), w[j]);
    out.at[j] = narrow<T>(a.residual ? dx + widen(past.at[j]) : dx);
  }
  return out;
}

// dx alone.
template <bool kCenter>
struct NormGradientRow : NormArguments {
  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    using W = wide_t<T>;
    const typename RowOf<T, N, K>::type x_row(x, lane, shared, call.cached);
    const typename RowOf<T, N, K>::type dy_row(dy, lane, shared + call.cached, call.cached);
    const GradientSums<W> s = sums_of<kCenter, T, N>(*this, lane, x_row, dy_row);
    each_pack(
        lane,
        [&](int64_t i, const Pack<T, N>& p, const Pack<T, N>& d) {
          const int64_t at = lane.row * lane.packs + i;
          static_cast<Pack<T, N>*>(y)[at] = dx_of<kCenter>(*this, s, at, i, p, d);
        },
        x_row, dy_row);
  }
};

// --- dx with sums over rows, in one pass

// How rows are dealt to blocks; of the shape alone.
struct RowBlocks {
  int group = 32, threads = 256, held = 1;
  int64_t count = 0, rows_each = 1;

  static constexpr int kMostHeld = 4;
  static constexpr int64_t kLongest = 8192;  // elements of a row that fit the registers of a block

  static RowBlocks of(int64_t rows, int64_t packs, int pack_elements) {
    constexpr int64_t kBusy = 132 * 512;  // threads
    RowBlocks b;
    const int most = static_cast<int>(kLongest / kMostHeld) / pack_elements;
    b.group = 1;
    while (b.group < 32 && b.group < packs) b.group *= 2;
    while (b.group < most && b.group * kMostHeld < packs) b.group *= 2;
    b.held = static_cast<int>((packs + b.group - 1) / b.group);
    b.threads = b.group > 32 ? b.group : 256;
    const int64_t at_once = b.threads / b.group, most_blocks = kBusy / b.threads;
    b.rows_each = std::max<int64_t>(1, blocks_for(blocks_for(rows, at_once), most_blocks)) * at_once;
    b.count = blocks_for(rows, b.rows_each);
    return b;
  }
};

// Adds the groups of a block one after the other into its row of `sums`, n columns.
template <int N, int K>
__device__ void put_sums(const RowLane& lane, const float (&mine)[K][N], float* sums) {
  __shared__ float of_block[32 * RowBlocks::kMostHeld * 8];
  const int groups = static_cast<int>(blockDim.x) / lane.step,
            group = static_cast<int>(threadIdx.x) / lane.step;
  for (int g = 0; g < groups; ++g) {
    if (g == group) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int i = lane.first + k * lane.step;
        if (i >= lane.packs) continue;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float sum = mine[k][j];
          if (g > 0) sum += of_block[i * N + j];
          if (g + 1 < groups)
            of_block[i * N + j] = sum;
          else
            sums[i * N + j] = sum;
        }
      }
    }
    __syncthreads();
  }
}

struct GradientCall {
  NormArguments a;
  int64_t rows = 0, rows_each = 1, packs = 0;
  int group = 32;
  float* dweight = nullptr;  // of each block, n columns; or null
  float* dbias = nullptr;
};

// Two blocks of 256 threads share a multiprocessor where that costs no spills: layer_norm holds more.
template <bool kCenter, int N>
inline constexpr int kGradientBlocks = kCenter ? 1 : N* RowBlocks::kMostHeld * 512 / RowBlocks::kLongest;

template <bool kCenter, class T, int N, int K>
__global__ void __launch_bounds__(RowBlocks::kLongest / RowBlocks::kMostHeld / N, kGradientBlocks<kCenter, N>)
    gradient_kernel(GradientCall call) {
  const NormArguments& a = call.a;
  const int64_t last = min(call.rows, (blockIdx.x + int64_t{1}) * call.rows_each);
  RowLane lane(call.rows, call.packs, call.group);
  float dw[K][N] = {}, db[K][N] = {};
  for (int64_t base = blockIdx.x * call.rows_each; base < last; base += blockDim.x / call.group) {
    const int64_t row = base + threadIdx.x / call.group;
    lane.row = row < last ? row : 0;
    lane.packs = row < last ? call.packs : 0;
    const HeldRow<T, N, K> x(a.x, lane, nullptr, 0), dy(a.dy, lane, nullptr, 0);
    const GradientSums<float> s = sums_of<kCenter, T, N>(a, lane, x, dy);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int i = lane.first + k * lane.step;
      if (i >= lane.packs) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float d = widen(dy.at[k].at[j]);
        dw[k][j] += d * ((widen(x.at[k].at[j]) - s.mean) * s.inverse);
        if (kCenter) db[k][j] += d;
      }
      const int64_t at = lane.row * lane.packs + i;
      static_cast<Pack<T, N>*>(a.y)[at] = dx_of<kCenter>(a, s, at, i, x.at[k], dy.at[k]);
    }
  }
  lane.packs = call.packs;
  const int64_t at = blockIdx.x * call.packs * N;
  if (call.dweight) put_sums<N, K>(lane, dw, call.dweight + at);
  if (kCenter && call.dbias) put_sums<N, K>(lane, db, call.dbias + at);
}

// --- the same for rows that registers cannot hold: statistics, then sums by columns, then dx

template <bool kCenter>
struct StatisticsRow : NormArguments {
  void* statistics = nullptr;  // of each row

  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    const typename RowOf<T, N, K>::type x_row(x, lane, shared, call.cached);
    const auto s = statistics_of<kCenter, T, N>(*this, lane, x_row);
    if (lane.first == 0 && lane.packs > 0) static_cast<Statistics<wide_t<T>>*>(statistics)[lane.row] = s;
  }
};

constexpr int kColumns = 32, kStripes = 8;

// Chunks of rows whose sums are made one by one.
int64_t column_chunks(int64_t rows, int64_t n) {
  constexpr int64_t kBlocks = 2048, kRows = 64;
  return std::max<int64_t>(1,
                           std::min(rows / kRows, kBlocks / blocks_for(std::max<int64_t>(n, 1), kColumns)));
}

template <class W>
__device__ W add_stripes(W v) {
  __shared__ W of_stripe[kStripes][kColumns];
  __syncthreads();
  of_stripe[threadIdx.y][threadIdx.x] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < kStripes; ++i) v += of_stripe[i][threadIdx.x];
  return v;
}

// Block (columns, chunk) -> sums of its columns over the rows of its chunk.
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
  dw = add_stripes(dw);
  db = add_stripes(db);
  if (threadIdx.y != 0 || column >= a.n) return;
  if (dweight) dweight[blockIdx.y * a.n + column] = dw;
  if (dbias) dbias[blockIdx.y * a.n + column] = db;
}

// --- the last step of both: sums[j] of n columns over blocks, the same order always

template <class W>
__global__ void add_blocks_kernel(const W* first, const W* second, int64_t blocks, int64_t n, W* first_sums,
                                  W* second_sums) {
  const W* partial = blockIdx.y == 0 ? first : second;
  W* sums = blockIdx.y == 0 ? first_sums : second_sums;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  W sum = 0;
  if (column < n)
    for (int64_t b = threadIdx.y; b < blocks; b += kStripes) sum += partial[b * n + column];
  sum = add_stripes(sum);
  if (threadIdx.y == 0 && column < n) sums[column] = sum;
}

// --- starting them

int64_t normalized_size(std::span<const int64_t> sizes, int64_t num_axes) {
  int64_t n = 1;
  for (int64_t i = 0; i < num_axes; ++i) n *= sizes[sizes.size() - 1 - static_cast<size_t>(i)];
  return n;
}

NormArguments arguments_of(const KernelContext& c, double eps, int64_t num_axes) {
  NormArguments a;
  a.x = c.input(0).data;
  a.y = c.output().data;
  a.n = normalized_size(c.input(0).sizes(), num_axes);
  a.eps = eps;
  return a;
}

template <bool kCenter>
void run_forward(const KernelContext& c, NormArguments a, bool has_weight, bool has_bias) {
  if (c.input(0).numel() == 0) return;
  if (has_weight) a.weight = WideVector::of(c.input(1));
  if (has_bias) a.bias = WideVector::of(c.input(has_weight ? 2 : 1));
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start_rows<T>(c, c.input(0).numel() / a.n, a.n, 1, NormRow<kCenter>{a});
  });
}

// Where the gradients' partial sums go, and their results.
template <class W>
struct AffineGradients {
  W *dweight = nullptr, *dbias = nullptr;
  W *dweight_sums = nullptr, *dbias_sums = nullptr;
  int64_t n = 0, sums = 0;

  void take_room(std::byte* scratch, int64_t blocks) {
    W* room = reinterpret_cast<W*>(scratch);
    if (dweight) dweight_sums = room;
    if (dbias) dbias_sums = room + (dweight ? blocks * n : 0);
  }
  void add_blocks(const KernelContext& c, int64_t blocks) const {
    const bool both = dweight && dbias;
    const dim3 grid(static_cast<unsigned>(blocks_for(n, kColumns)), both ? 2 : 1);
    add_blocks_kernel<W><<<grid, dim3(kColumns, kStripes), 0, launch_of(c).stream>>>(
        dweight ? dweight_sums : dbias_sums, dbias_sums, blocks, n, dweight ? dweight : dbias, dbias);
  }
};

template <bool kCenter, class T, int N>
void start_gradient(const KernelContext& c, const NormArguments& a, int64_t rows,
                    AffineGradients<float>& to) {
  const RowBlocks blocks = RowBlocks::of(rows, a.n / N, N);
  to.take_room(c.scratch, blocks.count);
  const GradientCall call{a, rows, blocks.rows_each, a.n / N, blocks.group, to.dweight_sums, to.dbias_sums};
  const auto held = [&](auto k) {
    start(c, gradient_kernel<kCenter, T, N, k()>, blocks.count, blocks.threads, 0, call);
  };
  if (blocks.held == 1)
    held(std::integral_constant<int, 1>{});
  else if (blocks.held == 2)
    held(std::integral_constant<int, 2>{});
  else
    held(std::integral_constant<int, 4>{});
  to.add_blocks(c, blocks.count);
}

// Column sums first: dx may be written over x or dy.
template <bool kCenter, class T>
void start_long_gradient(const KernelContext& c, const NormArguments& a, int64_t rows,
                         AffineGradients<wide_t<T>>& to) {
  using W = wide_t<T>;
  auto* statistics = reinterpret_cast<Statistics<W>*>(c.scratch);
  const int64_t chunks = column_chunks(rows, a.n);
  to.take_room(c.scratch + rows * static_cast<int64_t>(sizeof(Statistics<W>)), chunks);
  start_rows<T, false>(c, rows, a.n, 1, StatisticsRow<kCenter>{a, statistics});
  const dim3 grid(static_cast<unsigned>(blocks_for(a.n, kColumns)), static_cast<unsigned>(chunks));
  column_sums_kernel<T><<<grid, dim3(kColumns, kStripes), 0, launch_of(c).stream>>>(
      a, rows, blocks_for(rows, chunks), statistics, to.dweight_sums, to.dbias_sums);
  to.add_blocks(c, chunks);
  start_rows<T>(c, rows, a.n, 2, NormGradientRow<kCenter>{a});
}

template <bool kCenter>
void run_backward(const KernelContext& c, NormArguments a, bool has_weight, bool has_residual,
                  bool want_weight, bool want_bias) {
  if (a.n == 0) return;
  a.dy = c.input(1).data;
  if (has_weight) a.weight = WideVector::of(c.input(2));
  if (has_residual) a.residual = c.inputs.back().data;
  const int64_t rows = c.input(0).numel() / a.n;
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = wide_t<T>;
    if (!want_weight && !want_bias) return start_rows<T>(c, rows, a.n, 2, NormGradientRow<kCenter>{a});
    AffineGradients<W> to{.n = a.n};
    if (want_weight) to.dweight = c.output(1).as<W>();
    if (want_bias) to.dbias = c.output(want_weight ? 2 : 1).as<W>();
    with_packs<T>(c, a.n, [&](auto size) {
      constexpr int N = size();
      if constexpr (N > 1 && !std::is_same_v<T, double>)
        if (rows > 0 && a.n <= RowBlocks::kLongest) return start_gradient<kCenter, T, N>(c, a, rows, to);
      if (rows > 0) return start_long_gradient<kCenter, T>(c, a, rows, to);
      to.add_blocks(c, 0);
    });
  });
}

// Either way's: alignment, which decides, is not known when this is asked.
template <class Op>
int64_t backward_scratch(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  const int64_t n = normalized_size(x.shape.sizes(), from_attributes<Op>(query.attributes).num_axes);
  const auto vectors = static_cast<int64_t>(query.outputs.size()) - 1;
  if (n == 0 || vectors == 0) return 0;
  const int64_t rows = x.numel() / n, size = x.dtype == DType::f64 ? 8 : 4;
  const int pack = static_cast<int>(16 / size_of(x.dtype));
  int64_t blocks = 0;
  if (n % pack == 0 && n <= RowBlocks::kLongest) blocks = RowBlocks::of(rows, n / pack, pack).count;
  return std::max(blocks * n * vectors * size, rows * 2 * size + column_chunks(rows, n) * n * vectors * size);
}

void layer_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::LayerNorm>();
  run_forward<true>(c, arguments_of(c, op.eps, op.num_axes), op.has_weight, op.has_bias);
}

void rms_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::RmsNorm>();
  run_forward<false>(c, arguments_of(c, op.eps, op.num_axes), op.has_weight, false);
}

void layer_norm_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::LayerNormGrad>();
  run_backward<true>(c, arguments_of(c, op.eps, op.num_axes), op.has_weight, op.has_residual, op.want_weight,
                     op.want_bias);
}

void rms_norm_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::RmsNormGrad>();
  run_backward<false>(c, arguments_of(c, op.eps, op.num_axes), op.has_weight, op.has_residual, op.want_weight,
                      false);
}

constexpr KernelImpl kLayerNorm[] = {{.name = "rows", .run = layer_norm}};
constexpr KernelImpl kRmsNorm[] = {{.name = "rows", .run = rms_norm}};
constexpr KernelImpl kLayerNormGrad[] = {
    {.name = "rows", .run = layer_norm_grad, .scratch_bytes = backward_scratch<ops::LayerNormGrad>}};
constexpr KernelImpl kRmsNormGrad[] = {
    {.name = "rows", .run = rms_norm_grad, .scratch_bytes = backward_scratch<ops::RmsNormGrad>}};
constexpr OpKernels kOps[] = {{"layer_norm", kLayerNorm},
                              {"rms_norm", kRmsNorm},
                              {"layer_norm_grad", kLayerNormGrad},
                              {"rms_norm_grad", kRmsNormGrad}};

}  // namespace

std::span<const OpKernels> norm_kernels() { return kOps; }

}  // namespace genesis::cuda
