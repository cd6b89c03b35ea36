// batch_norm and its gradient. The sums of a channel are computed in chunks of rows: a row has one number of each channel. Blocks
// sum their chunks, a small kernel adds the chunks in order, and a third one writes the result. With the channels last a thread
// keeps a pack of channels in registers and walks down the rows; otherwise it has one channel, whose numbers lie side by side.
#include "schema/ops/nn/batch_norm.h"

#include "backends/common/batch_norm_shape.h"
#include "backends/cuda/convolution/batch_norm_packs.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kColumns = 32, kStripes = 16;  // threads of a block that adds chunks

struct Walk {
  int64_t rows = 0, elements = 1, channels = 1, packs = 1, rows_each = 1;
  int across = 1, down = kThreads;  // threads of a block beside and below each other
  bool last = false;

  // Returns where the pack of a row is, counted in packs.
  __device__ int64_t at(int64_t row, int64_t pack) const {
    if (last) return row * packs + pack;
    return (row / elements * channels + pack) * elements + row % elements;
  }
  __device__ int64_t pack() const { return int64_t{blockIdx.x} * across + threadIdx.x % across; }
};

// The number of chunks does not depend on the width of packs: scratch memory is booked before that is known.
int64_t chunks_of(const BatchNormShape& s) {
  constexpr int64_t kBlocks = 1024, kRows = 64, kChannels = 256;
  return std::clamp<int64_t>(kBlocks / std::max<int64_t>(1, blocks_for(s.channels(), kChannels)), 1,
                             std::max<int64_t>(1, blocks_for(s.numbers(), kRows)));
}

Walk walk_of(const BatchNormShape& s, int width) {
  Walk w{
      .rows = s.numbers(), .elements = s.elements, .channels = s.channels(), .packs = s.channels() / width};
  w.rows_each = blocks_for(w.rows, chunks_of(s));
  w.last = s.planes.last;
  while (w.last && w.across < 32 && w.across < w.packs) w.across *= 2;
  w.down = kThreads / w.across;
  return w;
}

// Calls use(place, load(place)) for the rows of the block's chunk, with several loads in flight.
template <class Load, class Use>
__device__ void walk_rows(const Walk& w, const Load& load, const Use& use) {
  constexpr int kInFlight = 4;
  const int64_t pack = w.pack(), end = min(w.rows, (blockIdx.y + int64_t{1}) * w.rows_each);
  if (pack >= w.packs) return;
  int64_t row = blockIdx.y * w.rows_each + threadIdx.x / w.across;
  for (; row + (kInFlight - 1) * w.down < end; row += kInFlight * w.down) {
    decltype(load(int64_t{0})) loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) loaded[i] = load(w.at(row + i * w.down, pack));
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) use(w.at(row + i * w.down, pack), loaded[i]);
  }
  for (; row < end; row += w.down) use(w.at(row, pack), load(w.at(row, pack)));
}

// Adds the sums of the block's rows, and writes them as those of its chunk.
template <class W, int N>
__device__ void put_chunk(const Walk& w, const W (&sum)[N], W* chunks) {
  __shared__ W shared[kThreads * N];
  const int width = w.across * N, row = static_cast<int>(threadIdx.x) / w.across;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) shared[row * width + threadIdx.x % w.across * N + j] = sum[j];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    W all = 0;
    for (int r = 0; r < w.down; ++r) all += shared[r * width + i];
    const int64_t channel = int64_t{blockIdx.x} * width + i;
    if (channel < w.channels) chunks[blockIdx.y * w.channels + channel] = all;
  }
}

// Adds a channel's sums over all chunks, in an order that the sizes determine; every thread of the first row has the result.
template <class W>
__device__ double sum_chunks(const W* chunks, int64_t count, int64_t channels, int64_t channel) {
  __shared__ double shared[kStripes][kColumns + 1];
  double sum = 0;
  if (channel < channels)
    for (int64_t i = threadIdx.y; i < count; i += kStripes) sum += chunks[i * channels + channel];
  __syncthreads();
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0) return 0;
  for (int i = 1; i < kStripes; ++i) sum += shared[i][threadIdx.x];
  return sum;
}

// A vector of the channels, typed like x or wider.
template <class T>
struct ChannelVector {
  const T* numbers = nullptr;
  const wide_t<T>* wide = nullptr;

  __device__ wide_t<T> operator[](int64_t i) const { return wide ? wide[i] : widen(numbers[i]); }
};
template <class T>
ChannelVector<T> channel_vector(const TensorView& v) {
  if (sizeof(T) == size_of(v.dtype)) return {v.as<const T>(), nullptr};
  return {nullptr, v.as<const wide_t<T>>()};
}

// --- forward

template <class T>
struct Forward {
  Walk walk;
  const T *x, *addend;
  ChannelVector<T> weight, bias;
  T* y;
  wide_t<T>*mean, *var, *sums, *squares;  // sums: by chunk
  int64_t chunks;
  wide_t<T> eps;
  bool relu;
};

// Sums differences from each channel's first number, so that a large mean costs no digits of the variance.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) moment_sums_kernel(Forward<T> f) {
  using W = wide_t<T>;
  const auto* x = reinterpret_cast<const Pack<T, N>*>(f.x);
  W shift[N] = {}, sum[N] = {}, square[N] = {};
  if (f.walk.pack() < f.walk.packs && f.walk.rows > 0) {
    const Pack<T, N> first = x[f.walk.at(0, f.walk.pack())];
#pragma unroll
    for (int j = 0; j < N; ++j) shift[j] = widen(first.at[j]);
  }
  walk_rows(
      f.walk, [&](int64_t at) { return x[at]; },
      [&](int64_t, const Pack<T, N>& p) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W d = widen(p.at[j]) - shift[j];
          sum[j] += d;
          square[j] += d * d;
        }
      });
  put_chunk<W, N>(f.walk, sum, f.sums);
  put_chunk<W, N>(f.walk, square, f.squares);
}

template <class T>
__global__ void moments_kernel(Forward<T> f) {
  const int64_t channel = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const double sum = sum_chunks(f.sums, f.chunks, f.walk.channels, channel);
  const double squares = sum_chunks(f.squares, f.chunks, f.walk.channels, channel);
  if (threadIdx.y > 0 || channel >= f.walk.channels) return;
  const double n = static_cast<double>(f.walk.rows), moved = sum / n, var = squares / n - moved * moved;
  const double shift =
      f.walk.rows > 0 ? static_cast<double>(widen(f.x[f.walk.last ? channel : channel * f.walk.elements]))
                      : 0;
  f.mean[channel] = static_cast<wide_t<T>>(shift + moved);
  f.var[channel] = static_cast<wide_t<T>>(var < 0 ? 0 : var);
}

template <class T, int N>
struct PackAndAddend {
  Pack<T, N> x, addend;
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads) normalize_kernel(Forward<T> f) {
  using W = wide_t<T>;
  W mean[N] = {}, scale[N] = {}, bias[N] = {};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const int64_t channel = f.walk.pack() * N + j;
    if (channel >= f.walk.channels) continue;
    mean[j] = f.mean[channel], bias[j] = f.bias[channel];
    scale[j] = f.weight[channel] * (W(1) / sqrt(f.var[channel] + f.eps));
  }
  walk_rows(
      f.walk,
      [&](int64_t at) {
        PackAndAddend<T, N> p{reinterpret_cast<const Pack<T, N>*>(f.x)[at], {}};
        if (f.addend) p.addend = reinterpret_cast<const Pack<T, N>*>(f.addend)[at];
        return p;
      },
      [&](int64_t at, const PackAndAddend<T, N>& p) {
        Pack<T, N> y;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          W v = (widen(p.x.at[j]) - mean[j]) * scale[j] + bias[j];
          if (f.addend) v += widen(p.addend.at[j]);
          y.at[j] = narrow<T>(f.relu && v < W(0) ? W(0) : v);
        }
        reinterpret_cast<Pack<T, N>*>(f.y)[at] = y;
      });
}

// --- backward: see backends/cpu/kernels/nn/batch_norm.cpp

template <class T>
struct Backward {
  Walk walk;
  const T *x, *dy, *y;  // y: null unless it shows where the activation passes
  const T* more;        // null, or added to dy
  const wide_t<T>*mean, *var;
  ChannelVector<T> weight, bias;
  T *dx, *daddend, *y_again;                     // the last two may be null
  wide_t<T>*dweight, *dbias, *g_sums, *gz_sums;  // the last two by chunk
  int64_t chunks;
  wide_t<T> eps;
  bool relu;
};

template <class T, int N>
struct GradientPacks {
  Pack<T, N> x, dy, y, more;
};

// The numbers of a thread's channels, and what it makes of a pack: z = (x - mean) / sqrt(var + eps), and
// g = dy where y was positive.
template <class T, int N>
struct GradientChannels {
  using W = wide_t<T>;
  W mean[N] = {}, inverse[N] = {}, weight[N] = {}, bias[N] = {};

  __device__ explicit GradientChannels(const Backward<T>& b) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const int64_t channel = b.walk.pack() * N + j;
      if (channel >= b.walk.channels) continue;
      mean[j] = b.mean[channel], inverse[j] = W(1) / sqrt(b.var[channel] + b.eps);
      weight[j] = b.weight[channel];
      if (b.relu && !b.y) bias[j] = b.bias[channel];
    }
  }
  __device__ GradientPacks<T, N> load(const Backward<T>& b, int64_t at) const {
    GradientPacks<T, N> p{
        reinterpret_cast<const Pack<T, N>*>(b.x)[at], reinterpret_cast<const Pack<T, N>*>(b.dy)[at], {}, {}};
    if (b.y) p.y = reinterpret_cast<const Pack<T, N>*>(b.y)[at];
    if (b.more) p.more = reinterpret_cast<const Pack<T, N>*>(b.more)[at];
    return p;
  }
  __device__ W z(const GradientPacks<T, N>& p, int j) const {
    return (widen(p.x.at[j]) - mean[j]) * inverse[j];
  }
  // Computes y as the forward pass does, so that its sign is the same.
  __device__ W g(const Backward<T>& b, const GradientPacks<T, N>& p, int j) const {
    const W dy = b.more ? widen(narrow<T>(widen(p.dy.at[j]) + widen(p.more.at[j]))) : widen(p.dy.at[j]);
    if (!b.relu) return dy;
    return (b.y ? widen(p.y.at[j]) : y(p, j)) > W(0) ? dy : W(0);
  }
  __device__ W y(const GradientPacks<T, N>& p, int j) const {
    return (widen(p.x.at[j]) - mean[j]) * (weight[j] * inverse[j]) + bias[j];
  }
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads) gradient_sums_kernel(Backward<T> b) {
  using W = wide_t<T>;
  const GradientChannels<T, N> channels(b);
  W g_sum[N] = {}, gz_sum[N] = {};
  walk_rows(
      b.walk, [&](int64_t at) { return channels.load(b, at); },
      [&](int64_t, const GradientPacks<T, N>& p) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W g = channels.g(b, p, j);
          g_sum[j] += g;
          gz_sum[j] += g * channels.z(p, j);
        }
      });
  put_chunk<W, N>(b.walk, g_sum, b.g_sums);
  put_chunk<W, N>(b.walk, gz_sum, b.gz_sums);
}

template <class T>
__global__ void gradient_vectors_kernel(Backward<T> b) {
  const int64_t channel = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const double g = sum_chunks(b.g_sums, b.chunks, b.walk.channels, channel);
  const double gz = sum_chunks(b.gz_sums, b.chunks, b.walk.channels, channel);
  if (threadIdx.y > 0 || channel >= b.walk.channels) return;
  b.dweight[channel] = static_cast<wide_t<T>>(gz);
  b.dbias[channel] = static_cast<wide_t<T>>(g);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) gradient_kernel(Backward<T> b) {
  using W = wide_t<T>;
  const GradientChannels<T, N> channels(b);
  W g_mean[N] = {}, gz_mean[N] = {};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const int64_t channel = b.walk.pack() * N + j;
    if (channel >= b.walk.channels) continue;
    g_mean[j] = b.dbias[channel] / static_cast<W>(b.walk.rows);
    gz_mean[j] = b.dweight[channel] / static_cast<W>(b.walk.rows);
  }
  walk_rows(
      b.walk, [&](int64_t at) { return channels.load(b, at); },
      [&](int64_t at, const GradientPacks<T, N>& p) {
        Pack<T, N> dx, passed;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W g = channels.g(b, p, j), scale = channels.weight[j] * channels.inverse[j];
          dx.at[j] = narrow<T>(scale * (g - g_mean[j] - channels.z(p, j) * gz_mean[j]));
          passed.at[j] = narrow<T>(g);
        }
        reinterpret_cast<Pack<T, N>*>(b.dx)[at] = dx;
        if (b.daddend) reinterpret_cast<Pack<T, N>*>(b.daddend)[at] = passed;
        if (!b.y_again) return;
        Pack<T, N> y;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W v = channels.y(p, j);
          y.at[j] = narrow<T>(v < W(0) ? W(0) : v);  // NaN stays, as in the forward pass.
        }
        reinterpret_cast<Pack<T, N>*>(b.y_again)[at] = y;
      });
}

// --- launches

// Calls body(Tag<T>, width of packs) for the node.
template <class Body>
void for_width(const KernelContext& c, const BatchNormShape& s, const Body& body) {
  if (s.channels() == 0) return;
  dispatch_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_packs<T>(c, s.planes.last ? s.channels() : 1, [&](auto width) { body(tag, width); });
  });
}

template <class W>
W* chunk_sums(const KernelContext& c, const BatchNormShape& s, int64_t which) {
  return reinterpret_cast<W*>(c.scratch) + which * chunks_of(s) * s.channels();
}

template <class Arguments>
void launch(const KernelContext& c, const Arguments& a, void (*sums)(Arguments), void (*vectors)(Arguments),
            void (*result)(Arguments)) {
  const auto blocks = [](int64_t n) { return static_cast<unsigned>(n); };
  const cudaStream_t stream = launch_of(c).stream;
  const dim3 grid(blocks(blocks_for(a.walk.packs, a.walk.across)), blocks(a.chunks));
  sums<<<grid, kThreads, 0, stream>>>(a);
  vectors<<<blocks(blocks_for(a.walk.channels, kColumns)), dim3(kColumns, kStripes), 0, stream>>>(a);
  result<<<grid, kThreads, 0, stream>>>(a);
}

}  // namespace

void run_batch_norm_chunks(const KernelContext& c) {
  const auto& s = c.prepared<BatchNormShape>();
  for_width(c, s, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    using W = wide_t<T>;
    constexpr int N = decltype(width)::value;
    const Forward<T> f{walk_of(s, N),
                       c.input(0).as<const T>(),
                       s.has_addend ? c.input(3).as<const T>() : nullptr,
                       channel_vector<T>(c.input(1)),
                       channel_vector<T>(c.input(2)),
                       c.output().as<T>(),
                       c.output(1).as<W>(),
                       c.output(2).as<W>(),
                       chunk_sums<W>(c, s, 0),
                       chunk_sums<W>(c, s, 1),
                       chunks_of(s),
                       static_cast<W>(s.eps),
                       s.relu};
    launch(c, f, moment_sums_kernel<T, N>, moments_kernel<T>, normalize_kernel<T, N>);
  });
}

void run_batch_norm_grad_chunks(const KernelContext& c) {
  const auto& s = c.prepared<BatchNormShape>();
  for_width(c, s, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    using W = wide_t<T>;
    constexpr int N = decltype(width)::value;
    const bool reads_y = s.reads_y();
    const Backward<T> b{walk_of(s, N),
                        c.input(0).as<const T>(),
                        c.input(1).as<const T>(),
                        reads_y ? c.input(5).as<const T>() : nullptr,
                        s.two_gradients ? c.input(6).as<const T>() : nullptr,
                        c.input(2).as<const W>(),
                        c.input(3).as<const W>(),
                        channel_vector<T>(c.input(4)),
                        s.relu && !reads_y ? channel_vector<T>(c.input(5)) : ChannelVector<T>{},
                        c.output().as<T>(),
                        reads_y ? c.output(3).as<T>() : nullptr,
                        s.with_output ? c.output(3).as<T>() : nullptr,
                        c.output(1).as<W>(),
                        c.output(2).as<W>(),
                        chunk_sums<W>(c, s, 0),
                        chunk_sums<W>(c, s, 1),
                        chunks_of(s),
                        static_cast<W>(s.eps),
                        s.relu};
    launch(c, b, gradient_sums_kernel<T, N>, gradient_vectors_kernel<T>, gradient_kernel<T, N>);
  });
}

int64_t batch_norm_chunk_bytes(const KernelQuery& query) {
  const auto shape = std::static_pointer_cast<const BatchNormShape>(prepare_batch_norm(query));
  const auto wide = static_cast<int64_t>(size_of(wide_dtype(shape->dtype)));
  return checked_mul(2 * chunks_of(*shape) * wide, shape->channels());
}

std::span<const OpKernel> batch_norm_kernels() {
  static const OpKernel kKernels[] = {
      {"batch_norm", packed_batch_norm()},
      {"batch_norm",
       {.name = "chunks",
        .run = run_batch_norm_chunks,
        .scratch_bytes = batch_norm_chunk_bytes,
        .prepare = prepare_batch_norm}},
      {"batch_norm_grad", packed_batch_norm_grad()},
      {"batch_norm_grad",
       {.name = "chunks",
        .run = run_batch_norm_grad_chunks,
        .scratch_bytes = batch_norm_chunk_bytes,
        .prepare = prepare_batch_norm}},
  };
  return kKernels;
}

}  // namespace genesis::cuda
