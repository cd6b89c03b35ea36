#include "backends/cuda/convolution/depthwise.h"

#include <limits>

#include "backends/cuda/convolution/window_epilogue.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda {
namespace {

constexpr int kStrip = 4;       // neighbors of a row that a thread computes
constexpr int kMostPacks = 8;   // packs of a block, next to each other
constexpr int kBlocksEach = 2;  // blocks of a multiprocessor: 128 registers a thread

template <class T>
struct Depthwise {
  using Element = T;
  int rows, width;  // of x, or of dy in a transposed convolution
  int out_rows, out_width;
  int begin_y, begin_x, taps_y;
  int packs, block_packs, lines;  // packs of a pixel and of a block; a block's strips at a time
  bool flipped;                   // the window is read from its end
  int strips;                     // of all images
  Divisor by_across, by_rows;     // strips of a row, rows of an image
  const Words* x;
  const T* weight;  // [channels, taps]
  Words* y;
  ChannelNumbers<T> scale, bias;
  const Words* addend;
  ConvolutionActivation activation;
};

// Where the weights of a tap and a pack begin in shared memory, [tap][quarter of a pack][pack][4]: neighboring threads then read four
// numbers from neighboring places. Quarters of a pack lie `4 * block_packs` apart.
__device__ __forceinline__ int weights_at(int tap, int pack, int block_packs, int quads) {
  return (tap * quads * block_packs + pack) * 4;
}

template <class T, int taps_x>
__device__ void read_weights(const Depthwise<T>& d, float* shared) {
  constexpr int N = 16 / sizeof(T);
  const int width = d.block_packs * N, taps = d.taps_y * taps_x, channels = d.packs * N;
  for (int i = static_cast<int>(threadIdx.x); i < taps * width; i += kThreads) {
    const int tap = i / width, channel = static_cast<int>(blockIdx.x) * width + i % width;
    const int from = d.flipped ? taps - 1 - tap : tap;
    const int j = i % width % N;
    shared[weights_at(tap, i % width / N, d.block_packs, N / 4) + j / 4 * 4 * d.block_packs + j % 4] =
        channel < channels ? widen(d.weight[int64_t{channel} * taps + from]) : 0.0f;
  }
  __syncthreads();
}

// Adds the products of a row of x, of which the strip meets elements from `first` on, with a row of the window.
template <class T, int taps, int stride, int N>
__device__ __forceinline__ void add_row(const Depthwise<T>& d, const Words* row, int first,
                                        const float* weights, float (&sum)[kStrip][N]) {
  constexpr int kElements = (kStrip - 1) * stride + taps;
  float weight[taps][N];
#pragma unroll
  for (int t = 0; t < taps; ++t)
#pragma unroll
    for (int q = 0; q < N / 4; ++q) {
      const auto four = *reinterpret_cast<const float4*>(weights + weights_at(t, 0, d.block_packs, N / 4) +
                                                         q * 4 * d.block_packs);
      weight[t][4 * q] = four.x, weight[t][4 * q + 1] = four.y;
      weight[t][4 * q + 2] = four.z, weight[t][4 * q + 3] = four.w;
    }
  Words loaded[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int element = first + i;
    loaded[i] = element >= 0 && element < d.width ? row[int64_t{element} * d.packs] : Words{};
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float value = element_of<T>(loaded[i], j);
#pragma unroll
      for (int t = 0; t < taps; ++t)
        if ((i - t) % stride == 0 && i - t >= 0 && (i - t) / stride < kStrip)
          sum[(i - t) / stride][j] += value * weight[t][j];
    }
  }
}

template <class T, int N>
__device__ __forceinline__ void write_strip(const Depthwise<T>& d, int64_t at, int count, int pack,
                                            float (&sum)[kStrip][N]) {
#pragma unroll
  for (int o = 0; o < kStrip; ++o) {
    if (o >= count) break;
    const int64_t place = at + int64_t{o} * d.packs;
    const Words addend = d.addend ? d.addend[place] : Words{};
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const int channel = pack * N + j;
      float v = sum[o][j] * d.scale.at(channel, 1.0f) + d.bias.at(channel, 0.0f);
      if (d.addend) v += element_of<T>(addend, j);
      sum[o][j] = activated(v, d.activation);
    }
    d.y[place] = words_of<T>(sum[o]);
  }
}

template <class T, int taps, int stride>
__global__ void __launch_bounds__(kThreads, kBlocksEach) depthwise_kernel(Depthwise<T> d) {
  constexpr int N = 16 / sizeof(T);
  extern __shared__ __align__(16) float weights[];
  read_weights<T, taps>(d, weights);
  const int lane = static_cast<int>(threadIdx.x) % d.block_packs,
            line = static_cast<int>(threadIdx.x) / d.block_packs;
  const int pack = static_cast<int>(blockIdx.x) * d.block_packs + lane;
  if (line >= d.lines || pack >= d.packs) return;
  for (int strip = static_cast<int>(blockIdx.y) * d.lines + line; strip < d.strips;
       strip += static_cast<int>(gridDim.y) * d.lines) {
    const auto row = static_cast<int>(d.by_across.quotient(static_cast<uint32_t>(strip)));
    const auto image = static_cast<int>(d.by_rows.quotient(static_cast<uint32_t>(row)));
    const int px = (strip - row * static_cast<int>(d.by_across.size)) * kStrip, py = row - image * d.out_rows;
    float sum[kStrip][N] = {};
    for (int t = 0; t < d.taps_y; ++t) {
      const int y = py * stride + t - d.begin_y;
      if (y < 0 || y >= d.rows) continue;
      const Words* from = d.x + (int64_t{image} * d.rows + y) * d.width * d.packs + pack;
      add_row<T, taps, stride>(d, from, px * stride - d.begin_x,
                               weights + weights_at(t * taps, lane, d.block_packs, N / 4), sum);
    }
    write_strip<T>(d, (int64_t{row} * d.out_width + px) * d.packs + pack, min(kStrip, d.out_width - px), pack,
                   sum);
  }
}

// --- the gradient of the weight

constexpr int kGradientThreads = 256;
constexpr int64_t kMostChunks = 512;
constexpr int kStripes = 8;  // threads that add the chunks of a weight

// A block has threads for each row of the window, so that they read the same elements at about the same time. Its sums are a chunk.
template <class T>
struct DepthwiseGradient {
  using Element = T;
  Depthwise<T> d;  // x and the sizes of a convolution; `lines` are strips of one row of the window
  const Words* dy;
  float* chunks;  // [chunks, taps, channels]
  int chunk_count;
  T* dw;
};

template <class T, int taps, int stride, int N>
__device__ __forceinline__ void add_strip(const Depthwise<T>& d, const Words* row, int first, const Words* dy,
                                          int count, float (&sum)[taps][N]) {
  constexpr int kElements = (kStrip - 1) * stride + taps;
  Words loaded[kElements], gradient[kStrip];
#pragma unroll
  for (int o = 0; o < kStrip; ++o) gradient[o] = o < count ? dy[int64_t{o} * d.packs] : Words{};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int element = first + i;
    loaded[i] = element >= 0 && element < d.width ? row[int64_t{element} * d.packs] : Words{};
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float g[kStrip];
#pragma unroll
    for (int o = 0; o < kStrip; ++o) g[o] = element_of<T>(gradient[o], j);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float value = element_of<T>(loaded[i], j);
#pragma unroll
      for (int o = 0; o < kStrip; ++o)
        if (i - o * stride >= 0 && i - o * stride < taps) sum[i - o * stride][j] += value * g[o];
    }
  }
}

// Adds the sums of the block's lines one after the other, and writes them as a chunk.
template <class T, int taps, int N>
__device__ void put_chunk(const DepthwiseGradient<T>& g, int lane, int tap_y, int line, bool works,
                          const float (&sum)[taps][N]) {
  extern __shared__ __align__(16) float weights[];  // used as [taps_y, taps, channels of the block]
  float* shared = weights;
  const Depthwise<T>& d = g.d;
  const int width = d.block_packs * N, all = d.taps_y * taps * width, channels = d.packs * N;
  for (int l = 0; l < d.lines; ++l) {
    if (works && line == l)
#pragma unroll
      for (int t = 0; t < taps; ++t)
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float& to = shared[(tap_y * taps + t) * width + lane * N + j];
          to = l == 0 ? sum[t][j] : to + sum[t][j];
        }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kGradientThreads) {
    const int channel = static_cast<int>(blockIdx.x) * width + i % width;
    if (channel < channels)
      g.chunks[(int64_t{blockIdx.y} * d.taps_y * taps + i / width) * channels + channel] = shared[i];
  }
}

template <class T, int taps, int stride>
__global__ void __launch_bounds__(kGradientThreads) gradient_chunks_kernel(DepthwiseGradient<T> g) {
  constexpr int N = 16 / sizeof(T);
  const Depthwise<T>& d = g.d;
  const int lane = static_cast<int>(threadIdx.x) % d.block_packs,
            tap_y = static_cast<int>(threadIdx.x) / d.block_packs % d.taps_y,
            line = static_cast<int>(threadIdx.x) / d.block_packs / d.taps_y;
  const int pack = static_cast<int>(blockIdx.x) * d.block_packs + lane;
  const bool works = line < d.lines && pack < d.packs;
  float sum[taps][N] = {};
  for (int strip = static_cast<int>(blockIdx.y) * d.lines + line; works && strip < d.strips;
       strip += static_cast<int>(gridDim.y) * d.lines) {
    const auto row = static_cast<int>(d.by_across.quotient(static_cast<uint32_t>(strip)));
    const auto image = static_cast<int>(d.by_rows.quotient(static_cast<uint32_t>(row)));
    const int px = (strip - row * static_cast<int>(d.by_across.size)) * kStrip;
    const int y = (row - image * d.out_rows) * stride + tap_y - d.begin_y;
    if (y < 0 || y >= d.rows) continue;
    add_strip<T, taps, stride>(
        d, d.x + (int64_t{image} * d.rows + y) * d.width * d.packs + pack, px * stride - d.begin_x,
        g.dy + (int64_t{row} * d.out_width + px) * d.packs + pack, min(kStrip, d.out_width - px), sum);
  }
  put_chunk<T, taps, N>(g, lane, tap_y, line, works, sum);
}

// Adds the chunks of each weight in an order that the sizes determine.
template <class T>
__global__ void add_chunks_kernel(DepthwiseGradient<T> g, int taps, int channels) {
  __shared__ float shared[kStripes][33];
  const int i = static_cast<int>(blockIdx.x * 32 + threadIdx.x), all = taps * channels;
  float sum = 0;
  for (int chunk = static_cast<int>(threadIdx.y); i < all && chunk < g.chunk_count; chunk += kStripes)
    sum += g.chunks[int64_t{chunk} * all + i];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || i >= all) return;
  for (int stripe = 1; stripe < kStripes; ++stripe) sum += shared[stripe][threadIdx.x];
  g.dw[int64_t{i % channels} * taps + i / channels] = narrow<T>(sum);
}

// --- launches

// Returns why the kernel does not run the node, whose positions are the outputs: the windows of a transposed convolution are those of
// a convolution by the flipped window.
std::optional<std::string> declines(const KernelQuery& query, bool transposed) {
  const ConvolutionShape s = convolution_shape(query);
  const auto& [z, y, x] = s.windows.axis;
  if (!s.channels_last || s.dtype == DType::f64) return "takes channels behind the spatial axes";
  if (s.in_each != 1 || s.out_each != 1 || s.groups % (16 / static_cast<int64_t>(size_of(s.dtype))) != 0)
    return "takes one channel for each group, and channels that fill 16 bytes";
  if (z.size != 1 || z.taps != 1 || z.positions != 1) return "takes two spatial axes";
  if (y.dilation != 1 || x.dilation != 1 || y.stride != x.stride || x.stride > (transposed ? 1 : 2))
    return "takes no dilation, and equal strides of 1 or 2, transposed of 1";
  if (x.taps != 3 && x.taps != 5 && x.taps != 7) return "takes windows 3, 5 or 7 wide";
  if (y.taps > 7) return "takes windows at most 7 high";
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (s.batch * s.groups == 0 || s.windows.elements() * s.windows.positions() == 0)
    return "takes tensors with elements";
  if (checked_mul(s.batch * s.groups, std::max(s.windows.elements(), s.windows.positions())) > most)
    return "takes fewer than 2^31 elements";
  return std::nullopt;
}

template <class T>
Depthwise<T> depthwise_sizes(const ConvolutionShape& s, bool transposed) {
  constexpr int N = 16 / sizeof(T);
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const auto& [z, y, x] = s.windows.axis;
  Depthwise<T> d{};
  d.rows = number(transposed ? y.positions : y.size), d.width = number(transposed ? x.positions : x.size);
  d.out_rows = number(transposed ? y.size : y.positions);
  d.out_width = number(transposed ? x.size : x.positions);
  d.begin_y = number(transposed ? y.taps - 1 - y.begin : y.begin);
  d.begin_x = number(transposed ? x.taps - 1 - x.begin : x.begin);
  d.taps_y = number(y.taps);
  d.packs = number(s.groups / N);
  d.block_packs = number(blocks_for(d.packs, blocks_for(d.packs, kMostPacks)));
  d.lines = kThreads / d.block_packs;
  d.flipped = transposed;
  const int64_t across = blocks_for(d.out_width, kStrip);
  d.strips = number(s.batch * d.out_rows * across);
  d.by_across = make_divisor(across), d.by_rows = make_divisor(d.out_rows);
  return d;
}

template <class T>
Depthwise<T> depthwise_of(const KernelContext& c, const ConvolutionShape& s, bool transposed) {
  Depthwise<T> d = depthwise_sizes<T>(s, transposed);
  d.x = c.input(0).as<const Words>(), d.weight = c.input(1).as<const T>(), d.y = c.output().as<Words>();
  if (transposed) return d;
  d.scale = channel_numbers<T>(c, s.has_scale, 2);
  d.bias = channel_numbers<T>(c, s.has_bias, s.bias_input());
  d.addend = s.has_addend ? c.input(static_cast<int>(s.addend_input())).as<const Words>() : nullptr;
  d.activation = s.activation;
  return d;
}

template <class T, int taps, int stride>
void launch(const KernelContext& c, const Depthwise<T>& d) {
  const int64_t columns = blocks_for(d.packs, d.block_packs), most = launch_of(c).multiprocessors * 8;
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(std::clamp<int64_t>(
                                                      most / columns, 1, blocks_for(d.strips, d.lines))));
  const size_t shared =
      sizeof(float) * static_cast<size_t>(d.taps_y * taps * d.block_packs) * (16 / sizeof(T));
  depthwise_kernel<T, taps, stride><<<grid, kThreads, shared, launch_of(c).stream>>>(d);
}

template <class T, int taps, int stride>
void launch(const KernelContext& c, DepthwiseGradient<T> g) {
  Depthwise<T>& d = g.d;
  d.lines = std::max(1, kGradientThreads / (d.block_packs * d.taps_y));
  const int64_t columns = blocks_for(d.packs, d.block_packs), most = launch_of(c).multiprocessors * 2;
  const int64_t chunks =
      std::clamp<int64_t>(std::min(most / columns, blocks_for(d.strips, d.lines)), 1, kMostChunks);
  g.chunk_count = static_cast<int>(chunks);
  const int channels = d.packs * static_cast<int>(16 / sizeof(T)), weights = d.taps_y * taps * channels;
  const size_t shared =
      sizeof(float) * static_cast<size_t>(d.taps_y * taps * d.block_packs) * (16 / sizeof(T));
  const cudaStream_t stream = launch_of(c).stream;
  gradient_chunks_kernel<T, taps, stride>
      <<<dim3(static_cast<unsigned>(columns), static_cast<unsigned>(chunks)), kGradientThreads, shared,
         stream>>>(g);
  add_chunks_kernel<T><<<static_cast<unsigned>(blocks_for(weights, 32)), dim3(32, kStripes), 0, stream>>>(
      g, d.taps_y * taps, channels);
}

template <int stride, class Problem>
void launch_by_taps(const KernelContext& c, const Problem& problem, int64_t taps) {
  if (taps == 3) launch<typename Problem::Element, 3, stride>(c, problem);
  if (taps == 5) launch<typename Problem::Element, 5, stride>(c, problem);
  if (taps == 7) launch<typename Problem::Element, 7, stride>(c, problem);
}

enum class Role { kForward, kTransposed, kWeightGradient };

// Returns false if a buffer is not aligned.
bool run_depthwise(const KernelContext& c, Role role) {
  if (!aligned_to_packs(c)) return false;
  const auto& s = c.prepared<ConvolutionShape>();
  const WindowAxis& x = s.windows.axis[2];
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto start = [&](const auto& problem) {
      x.stride == 1 ? launch_by_taps<1>(c, problem, x.taps) : launch_by_taps<2>(c, problem, x.taps);
    };
    if constexpr (!std::is_same_v<T, double>) {
      if (role == Role::kTransposed) return launch_by_taps<1>(c, depthwise_of<T>(c, s, true), x.taps);
      if (role == Role::kForward) return start(depthwise_of<T>(c, s, false));
      DepthwiseGradient<T> g{.d = depthwise_sizes<T>(s, false)};
      g.d.x = c.input(0).as<const Words>(), g.dy = c.input(1).as<const Words>(), g.dw = c.output().as<T>();
      g.chunks = reinterpret_cast<float*>(c.scratch);
      start(g);
    }
  });
  return true;
}

int64_t chunk_bytes(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  return checked_mul(kMostChunks * static_cast<int64_t>(sizeof(float)), s.groups * s.windows.taps());
}

}  // namespace

KernelImpl depthwise_convolution() {
  return {.name = "depthwise",
          .run =
              [](const KernelContext& c) {
                if (!run_depthwise(c, Role::kForward)) run_plain_convolution(c);
              },
          .can_run = [](const KernelQuery& query) { return declines(query, false); },
          .prepare = prepare_convolution};
}

KernelImpl depthwise_transposed() {
  return {.name = "depthwise",
          .run =
              [](const KernelContext& c) {
                if (!run_depthwise(c, Role::kTransposed)) run_plain_transposed(c);
              },
          .can_run = [](const KernelQuery& query) { return declines(query, true); },
          .prepare = prepare_convolution};
}

KernelImpl depthwise_weight_gradient() {
  return {.name = "depthwise",
          .run =
              [](const KernelContext& c) {
                if (!run_depthwise(c, Role::kWeightGradient)) run_plain_weight_gradient(c);
              },
          .can_run = [](const KernelQuery& query) { return declines(query, false); },
          .scratch_bytes = chunk_bytes,
          .prepare = prepare_convolution};
}

}  // namespace genesis::cuda
