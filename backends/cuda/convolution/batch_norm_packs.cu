#include "backends/cuda/convolution/batch_norm_packs.h"

#include <limits>

#include "backends/common/batch_norm_shape.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kMaxAcross = 32;       // threads that share a row
constexpr int kBlocksEach = 2;       // blocks of a multiprocessor: 128 registers a thread, all blocks at once
constexpr int64_t kMaxChunks = 512;  // for which scratch memory is booked
constexpr int kColumns = 8, kStripes = 32;

// Rows of packs of channels. The blocks of a column of the grid take rows in turns, so that all of them read what lies side by side.
// The sums are computed from the last row to the first, and the result from the first to the last: the rows that were written or
// read last are still in the cache.
struct PackRows {
  int64_t rows = 0;
  int packs = 1, channels = 1;
  int across = 1, down = 1;  // threads of a block beside and below each other
  int chunks = 1;            // blocks below each other

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % across; }
  __device__ int line() const { return static_cast<int>(threadIdx.x) / across; }
  __device__ int pack() const { return static_cast<int>(blockIdx.x) * across + lane(); }
  __device__ bool works() const { return line() < down && pack() < packs; }
};

PackRows rows_of(const KernelContext& c, const BatchNormShape& s, int width) {
  PackRows w{.rows = s.numbers(),
             .packs = static_cast<int>(s.channels() / width),
             .channels = static_cast<int>(s.channels())};
  const int64_t columns = blocks_for(w.packs, kMaxAcross);
  w.across = static_cast<int>(blocks_for(w.packs, columns));
  w.down = kThreads / w.across;
  const int64_t at_once = std::max<int64_t>(1, launch_of(c).multiprocessors * kBlocksEach / columns);
  w.chunks =
      static_cast<int>(std::clamp<int64_t>(std::min(at_once, blocks_for(w.rows, w.down)), 1, kMaxChunks));
  return w;
}

// Calls use(place, load(place)) for the rows of a thread, with `in_flight` loads before the first use.
template <int in_flight, bool from_the_end, class Load, class Use>
__device__ __forceinline__ void walk_rows(const PackRows& w, const Load& load, const Use& use) {
  const int64_t first = int64_t{blockIdx.y} * w.down + w.line(), step = int64_t{w.chunks} * w.down;
  if (!w.works() || first >= w.rows) return;
  int64_t left = (w.rows - first + step - 1) / step;
  int64_t at = (first + (from_the_end ? (left - 1) * step : 0)) * w.packs + w.pack();
  const int64_t move = (from_the_end ? -step : step) * w.packs;
  for (; left > 0; left -= in_flight, at += in_flight * move) {
    decltype(load(int64_t{0})) loaded[in_flight];  // behind the last row: that row again
#pragma unroll
    for (int i = 0; i < in_flight; ++i) loaded[i] = load(at + (i < left ? i : left - 1) * move);
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (i < left) use(at + i * move, loaded[i]);
  }
}

// Adds the sums of a block's threads, and writes them as those of its chunk.
template <int N>
__device__ void put_chunk(const PackRows& w, const float (&sum)[N], float* chunks) {
  __shared__ float shared[kThreads * N];
  const int width = w.across * N;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (w.line() < w.down) shared[w.line() * width + w.lane() * N + j] = sum[j];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    float all = 0;
    for (int line = 0; line < w.down; ++line) all += shared[line * width + i];
    const int channel = static_cast<int>(blockIdx.x) * width + i;
    if (channel < w.channels) chunks[int64_t{blockIdx.y} * w.channels + channel] = all;
  }
}

struct ChunkSums {
  double first = 0, second = 0;
};

// Adds a channel's sums over all chunks, in an order that the sizes determine; the first thread of a column has the result.
__device__ ChunkSums sum_chunks(const PackRows& w, const float* first, const float* second, int channel) {
  __shared__ double shared[2][kStripes][kColumns + 1];
  ChunkSums sums;
  if (channel < w.channels)
    for (int64_t i = threadIdx.y; i < w.chunks; i += kStripes) {
      sums.first += first[i * w.channels + channel];
      sums.second += second[i * w.channels + channel];
    }
  shared[0][threadIdx.y][threadIdx.x] = sums.first;
  shared[1][threadIdx.y][threadIdx.x] = sums.second;
  __syncthreads();
  for (int i = 1; threadIdx.y == 0 && i < kStripes; ++i) {
    sums.first += shared[0][i][threadIdx.x];
    sums.second += shared[1][i][threadIdx.x];
  }
  return sums;
}

// A vector of the channels, typed like x or f32.
template <class T>
struct ChannelVector {
  const T* numbers = nullptr;
  const float* wide = nullptr;

  __device__ float operator[](int i) const { return wide ? wide[i] : widen(numbers[i]); }
};
template <class T>
ChannelVector<T> channel_vector(const TensorView& v) {
  if (v.dtype == DType::f32) return {nullptr, v.as<const float>()};
  return {v.as<const T>(), nullptr};
}

// --- forward

template <class T, int N>
struct Forward {
  PackRows walk;
  const Words *x, *addend;
  ChannelVector<T> weight, bias;
  Words* y;
  float *mean, *var, *sums, *squares;  // the last two by chunk
  float eps;
};

// Sums differences from each channel's first number, so that a large mean costs no digits of the variance.
template <class T, int N>
__global__ void __launch_bounds__(kThreads, kBlocksEach) moment_sums_kernel(Forward<T, N> f) {
  float shift[N] = {}, sum[N] = {}, square[N] = {};
  if (f.walk.works()) {
    const Words first = f.x[f.walk.pack()];
#pragma unroll
    for (int j = 0; j < N; ++j) shift[j] = element_of<T>(first, j);
  }
  walk_rows<8, true>(
      f.walk, [&](int64_t at) { return f.x[at]; },
      [&](int64_t, const Words& p) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const float d = element_of<T>(p, j) - shift[j];
          sum[j] += d;
          square[j] += d * d;
        }
      });
  put_chunk<N>(f.walk, sum, f.sums);
  put_chunk<N>(f.walk, square, f.squares);
}

template <class T, int N>
__global__ void moments_kernel(Forward<T, N> f) {
  const int channel = static_cast<int>(blockIdx.x * kColumns + threadIdx.x);
  const ChunkSums sums = sum_chunks(f.walk, f.sums, f.squares, channel);
  if (threadIdx.y > 0 || channel >= f.walk.channels) return;
  const double n = static_cast<double>(f.walk.rows), moved = sums.first / n,
               var = sums.second / n - moved * moved;
  f.mean[channel] = static_cast<float>(widen(reinterpret_cast<const T*>(f.x)[channel]) + moved);
  f.var[channel] = static_cast<float>(var < 0 ? 0 : var);
}

struct PackAndAddend {
  Words x, addend;
};

template <class T, int N, bool has_addend, bool relu>
__global__ void __launch_bounds__(kThreads, kBlocksEach) normalize_kernel(Forward<T, N> f) {
  float mean[N] = {}, scale[N] = {}, bias[N] = {};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (!f.walk.works()) continue;
    const int channel = f.walk.pack() * N + j;
    mean[j] = f.mean[channel], bias[j] = f.bias[channel];
    scale[j] = f.weight[channel] * (1.0f / sqrtf(f.var[channel] + f.eps));
  }
  walk_rows<4, false>(
      f.walk,
      [&](int64_t at) {
        PackAndAddend p{f.x[at], {}};
        if constexpr (has_addend) p.addend = f.addend[at];
        return p;
      },
      [&](int64_t at, const PackAndAddend& p) {
        float y[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float v = (element_of<T>(p.x, j) - mean[j]) * scale[j] + bias[j];
          if constexpr (has_addend) v += element_of<T>(p.addend, j);
          y[j] = relu && v < 0.0f ? 0.0f : v;
        }
        f.y[at] = words_of<T>(y);
      });
}

// --- backward: see backends/cpu/kernels/nn/batch_norm.cpp

// The gradient passes everywhere, where y computed again is positive, or where the given y is.
enum class Passes { kAll, kComputedY, kGivenY };

template <class T, int N>
struct Backward {
  PackRows walk;
  const Words *x, *dy, *more, *y;  // more: null, or added to dy
  const float *mean, *var;
  ChannelVector<T> weight, bias;
  Words *dx, *passed;                         // passed: the gradient of the addend, which is what passes
  Words* y_again;                             // null, or y, which the forward pass did not keep
  float *dweight, *dbias, *g_sums, *gz_sums;  // the last two by chunk
  float eps;
};

struct GradientPacks {
  Words x, dy, y, more;
};

// The numbers of a thread's channels, and g = dy where y was positive. y is computed as the forward pass does, so that its sign is
// the same.
template <class T, int N, Passes passes>
struct GradientChannels {
  float mean[N] = {}, inverse[N] = {}, scale[N] = {}, bias[N] = {};

  __device__ explicit GradientChannels(const Backward<T, N>& b) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (!b.walk.works()) continue;
      const int channel = b.walk.pack() * N + j;
      mean[j] = b.mean[channel], inverse[j] = 1.0f / sqrtf(b.var[channel] + b.eps);
      scale[j] = b.weight[channel] * inverse[j];
      if constexpr (passes == Passes::kComputedY) bias[j] = b.bias[channel];
    }
  }
  __device__ float centered(const GradientPacks& p, int j) const { return element_of<T>(p.x, j) - mean[j]; }
  __device__ float y(float centered, int j) const { return centered * scale[j] + bias[j]; }
  __device__ float g(const GradientPacks& p, float centered, int j, float dy) const {
    if constexpr (passes == Passes::kAll) return dy;
    return (passes == Passes::kGivenY ? element_of<T>(p.y, j) : y(centered, j)) > 0.0f ? dy : 0.0f;
  }
};

// With a given y, what passes is written, so that the other kernel need not read y. With `two_gradients`, dy is a sum, rounded like a
// tensor.
template <class T, int N, Passes passes, bool two_gradients>
__global__ void __launch_bounds__(kThreads, kBlocksEach) gradient_sums_kernel(Backward<T, N> b) {
  const GradientChannels<T, N, passes> channels(b);
  float g_sum[N] = {}, gz_sum[N] = {};
  walk_rows<two_gradients ? 3 : 4, true>(
      b.walk,
      [&](int64_t at) {
        GradientPacks p{b.x[at], b.dy[at], {}, {}};
        if constexpr (passes == Passes::kGivenY) p.y = b.y[at];
        if constexpr (two_gradients) p.more = b.more[at];
        return p;
      },
      [&](int64_t at, const GradientPacks& p) {
        float passed[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float dy = element_of<T>(p.dy, j);
          if constexpr (two_gradients) dy = widen(narrow<T>(dy + element_of<T>(p.more, j)));
          const float x = channels.centered(p, j), g = channels.g(p, x, j, dy);
          g_sum[j] += g;
          gz_sum[j] += g * x;
          passed[j] = g;
        }
        if constexpr (passes == Passes::kGivenY) b.passed[at] = words_of<T>(passed);
      });
#pragma unroll
  for (int j = 0; j < N; ++j) gz_sum[j] *= channels.inverse[j];
  put_chunk<N>(b.walk, g_sum, b.g_sums);
  put_chunk<N>(b.walk, gz_sum, b.gz_sums);
}

template <class T, int N>
__global__ void gradient_vectors_kernel(Backward<T, N> b) {
  const int channel = static_cast<int>(blockIdx.x * kColumns + threadIdx.x);
  const ChunkSums sums = sum_chunks(b.walk, b.g_sums, b.gz_sums, channel);
  if (threadIdx.y > 0 || channel >= b.walk.channels) return;
  b.dbias[channel] = static_cast<float>(sums.first);
  b.dweight[channel] = static_cast<float>(sums.second);
}

// dx = scale * (g - mean of g - z * mean of g z), where z = centered * inverse
template <class T, int N, Passes passes>
__global__ void __launch_bounds__(kThreads, kBlocksEach) gradient_kernel(Backward<T, N> b) {
  constexpr bool kIsMasked = passes == Passes::kGivenY;
  const GradientChannels<T, N, kIsMasked ? Passes::kAll : passes> channels(b);
  float constant[N] = {}, slope[N] = {};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (!b.walk.works()) continue;
    const int channel = b.walk.pack() * N + j;
    const float n = static_cast<float>(b.walk.rows);
    constant[j] = channels.scale[j] * (b.dbias[channel] / n);
    slope[j] = channels.scale[j] * channels.inverse[j] * (b.dweight[channel] / n);
  }
  const Words* dy = kIsMasked ? b.passed : b.dy;
  walk_rows<4, false>(
      b.walk,
      [&](int64_t at) {
        return GradientPacks{b.x[at], dy[at], {}, {}};
      },
      [&](int64_t at, const GradientPacks& p) {
        float dx[N], y[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const float x = channels.centered(p, j), g = channels.g(p, x, j, element_of<T>(p.dy, j));
          dx[j] = channels.scale[j] * g - constant[j] - x * slope[j];
          y[j] = channels.y(x, j) < 0.0f ? 0.0f : channels.y(x, j);  // NaN stays, as in the forward pass.
        }
        b.dx[at] = words_of<T>(dx);
        if (passes == Passes::kComputedY && b.y_again) b.y_again[at] = words_of<T>(y);
      });
}

// --- launches

bool runs_packs(DType dtype, int64_t channels) {
  return dtype != DType::f64 && channels % (16 / static_cast<int64_t>(size_of(dtype))) == 0;
}

std::optional<std::string> packs_decline(const KernelQuery& query) {
  const auto s = std::static_pointer_cast<const BatchNormShape>(prepare_batch_norm(query));
  if (!s->planes.last) return "takes channels behind the spatial axes";
  if (!runs_packs(s->dtype, s->channels())) return "takes f32, bf16 and f16 with channels that fill 16 bytes";
  if (s->channels() == 0 || s->numbers() == 0) return "takes tensors with elements";
  if (s->channels() > std::numeric_limits<int32_t>::max()) return "takes fewer than 2^31 channels";
  return std::nullopt;
}

int64_t sums_bytes(const KernelQuery& query) {
  const auto s = std::static_pointer_cast<const BatchNormShape>(prepare_batch_norm(query));
  return std::max(batch_norm_chunk_bytes(query),
                  checked_mul(2 * kMaxChunks * static_cast<int64_t>(sizeof(float)), s->channels()));
}

// Calls body(Tag<T>, width of packs).
template <class Body>
void for_type(const BatchNormShape& s, const Body& body) {
  dispatch_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) body(tag, std::integral_constant<int, 16 / sizeof(T)>{});
  });
}

template <class Arguments>
void launch(const KernelContext& c, const Arguments& a, void (*sums)(Arguments), void (*vectors)(Arguments),
            void (*result)(Arguments)) {
  const cudaStream_t stream = launch_of(c).stream;
  const dim3 grid(static_cast<unsigned>(blocks_for(a.walk.packs, a.walk.across)),
                  static_cast<unsigned>(a.walk.chunks));
  sums<<<grid, kThreads, 0, stream>>>(a);
  vectors<<<static_cast<unsigned>(blocks_for(a.walk.channels, kColumns)), dim3(kColumns, kStripes), 0,
            stream>>>(a);
  result<<<grid, kThreads, 0, stream>>>(a);
}

template <class T, int N>
void run_forward(const KernelContext& c, const BatchNormShape& s) {
  const PackRows walk = rows_of(c, s, N);
  auto* sums = reinterpret_cast<float*>(c.scratch);
  const Forward<T, N> f{walk,
                        c.input(0).as<const Words>(),
                        s.has_addend ? c.input(3).as<const Words>() : nullptr,
                        channel_vector<T>(c.input(1)),
                        channel_vector<T>(c.input(2)),
                        c.output().as<Words>(),
                        c.output(1).as<float>(),
                        c.output(2).as<float>(),
                        sums,
                        sums + int64_t{walk.chunks} * walk.channels,
                        static_cast<float>(s.eps)};
  const auto result = s.has_addend
                          ? s.relu ? normalize_kernel<T, N, true, true> : normalize_kernel<T, N, true, false>
                      : s.relu ? normalize_kernel<T, N, false, true>
                               : normalize_kernel<T, N, false, false>;
  launch(c, f, moment_sums_kernel<T, N>, moments_kernel<T, N>, result);
}

template <class T, int N, Passes passes, bool two_gradients = false>
void launch_backward(const KernelContext& c, const Backward<T, N>& b) {
  launch(c, b, gradient_sums_kernel<T, N, passes, two_gradients>, gradient_vectors_kernel<T, N>,
         gradient_kernel<T, N, passes>);
}

template <class T, int N>
void run_backward(const KernelContext& c, const BatchNormShape& s) {
  const PackRows walk = rows_of(c, s, N);
  auto* sums = reinterpret_cast<float*>(c.scratch);
  const bool reads_y = s.reads_y();
  const Backward<T, N> b{walk,
                         c.input(0).as<const Words>(),
                         c.input(1).as<const Words>(),
                         s.two_gradients ? c.input(6).as<const Words>() : nullptr,
                         reads_y ? c.input(5).as<const Words>() : nullptr,
                         c.input(2).as<const float>(),
                         c.input(3).as<const float>(),
                         channel_vector<T>(c.input(4)),
                         s.relu && !reads_y ? channel_vector<T>(c.input(5)) : ChannelVector<T>{},
                         c.output().as<Words>(),
                         reads_y ? c.output(3).as<Words>() : nullptr,
                         s.with_output ? c.output(3).as<Words>() : nullptr,
                         c.output(1).as<float>(),
                         c.output(2).as<float>(),
                         sums,
                         sums + int64_t{walk.chunks} * walk.channels,
                         static_cast<float>(s.eps)};
  if (s.two_gradients) return launch_backward<T, N, Passes::kGivenY, true>(c, b);
  if (reads_y) return launch_backward<T, N, Passes::kGivenY>(c, b);
  if (s.relu) return launch_backward<T, N, Passes::kComputedY>(c, b);
  launch_backward<T, N, Passes::kAll>(c, b);
}

void run_batch_norm(const KernelContext& c) {
  const auto& s = c.prepared<BatchNormShape>();
  if (!aligned_to_packs(c)) return run_batch_norm_chunks(c);
  for_type(s, [&](auto tag, auto width) { run_forward<typename decltype(tag)::type, width>(c, s); });
}

void run_batch_norm_grad(const KernelContext& c) {
  const auto& s = c.prepared<BatchNormShape>();
  if (!aligned_to_packs(c)) return run_batch_norm_grad_chunks(c);
  for_type(s, [&](auto tag, auto width) { run_backward<typename decltype(tag)::type, width>(c, s); });
}

}  // namespace

KernelImpl packed_batch_norm() {
  return {.name = "packs",
          .run = run_batch_norm,
          .can_run = packs_decline,
          .scratch_bytes = sums_bytes,
          .prepare = prepare_batch_norm};
}
KernelImpl packed_batch_norm_grad() {
  return {.name = "packs",
          .run = run_batch_norm_grad,
          .can_run = packs_decline,
          .scratch_bytes = sums_bytes,
          .prepare = prepare_batch_norm};
}

}  // namespace genesis::cuda
