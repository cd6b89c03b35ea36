#include "backends/cuda/convolution/depthwise.h"

#include <limits>

#include "backends/cuda/convolution/window_epilogue.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda {
namespace {

constexpr int kBlocksEach = 2;     // blocks of a multiprocessor: 128 registers a thread
constexpr int kMaxBytes = 128;     // bytes of a pixel, side by side, that a block computes
constexpr int kChannels = 4;       // channels that a thread computes
constexpr int kGradientStrip = 4;  // and whose products it adds for the gradient of the weight

// Neighbors of a row that a thread computes: what it reads for them must fit twice into its registers.
template <class T, int stride>
constexpr int kStrip = (stride == 1 ? 8 : 4) * 2 / static_cast<int>(sizeof(T));

template <class T>
struct Depthwise {
  using Element = T;
  int rows, width;  // sizes of x, or of dy in a transposed convolution
  int out_rows, out_width;
  int begin_y, begin_x, taps_y;
  int packs, block_packs, lines;  // packs of a pixel and of a block; a block's strips at a time
  bool flipped;                   // the window is read from its end
  int strips;                     // strips of all images
  Divisor by_across, by_rows;     // strips of a row, rows of an image
  const void* x;
  const T* weight;  // [channels, taps]
  void* y;
  ChannelNumbers<T> scale, bias;
  const void* addend;
  ConvolutionActivation activation;
};

// Four neighboring channels as they are in memory.
template <class T>
using Four = std::conditional_t<sizeof(T) == 4, uint4, uint2>;

template <class T>
__device__ __forceinline__ float element_of_four(const Four<T>& four, int j) {
  if constexpr (sizeof(T) == 4)
    return element_of<T>(four, j);
  else
    return j % 2 == 0 ? low_of<T>(j == 0 ? four.x : four.y) : high_of<T>(j == 1 ? four.x : four.y);
}
template <class T>
__device__ __forceinline__ Four<T> four_of(const float (&v)[kChannels]) {
  if constexpr (sizeof(T) == 4)
    return words_of<T>(v);
  else
    return {pair_of<T>(v[0], v[1]), pair_of<T>(v[2], v[3])};
}

// Reads the block's weights as [tap][channel], so that a thread reads those of its channels at once.
template <class T, int taps_x>
__device__ void read_weights(const Depthwise<T>& d, float* shared) {
  const int width = d.block_packs * kChannels, taps = d.taps_y * taps_x, channels = d.packs * kChannels;
  for (int i = static_cast<int>(threadIdx.x); i < taps * width; i += kThreads) {
    const int tap = i / width, channel = static_cast<int>(blockIdx.x) * width + i % width;
    const int from = d.flipped ? taps - 1 - tap : tap;
    shared[i] = channel < channels ? widen(d.weight[int64_t{channel} * taps + from]) : 0.0f;
  }
  __syncthreads();
}

// The elements of a row of x that a strip meets.
template <class T, int taps, int stride>
struct StripRow {
  static constexpr int kCount = kStrip<T, stride>, kElements = (kCount - 1) * stride + taps;
  Four<T> at[kElements];

  __device__ __forceinline__ void load(const Depthwise<T>& d, const Four<T>* row, int first) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int element = first + i;
      at[i] = element >= 0 && element < d.width ? row[int64_t{element} * d.packs] : Four<T>{};
    }
  }
  // Adds the products with a row of the window.
  __device__ __forceinline__ void add(const Depthwise<T>& d, const float* weights,
                                      float (&sum)[kCount][kChannels]) const {
    float weight[taps][kChannels];
#pragma unroll
    for (int t = 0; t < taps; ++t) {
      const auto four = *reinterpret_cast<const float4*>(weights + t * d.block_packs * kChannels);
      weight[t][0] = four.x, weight[t][1] = four.y, weight[t][2] = four.z, weight[t][3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
#pragma unroll
      for (int j = 0; j < kChannels; ++j) {
        const float value = element_of_four<T>(at[i], j);
#pragma unroll
        for (int t = 0; t < taps; ++t)
          if ((i - t) % stride == 0 && i - t >= 0 && (i - t) / stride < kCount)
            sum[(i - t) / stride][j] += value * weight[t][j];
      }
    }
  }
};

template <class T, int strip>
__device__ __forceinline__ void write_strip(const Depthwise<T>& d, int64_t at, int count, int pack,
                                            float (&sum)[strip][kChannels]) {
#pragma unroll
  for (int o = 0; o < strip; ++o) {
    if (o >= count) break;
    const int64_t place = at + int64_t{o} * d.packs;
    const Four<T> addend = d.addend ? static_cast<const Four<T>*>(d.addend)[place] : Four<T>{};
#pragma unroll
    for (int j = 0; j < kChannels; ++j) {
      const int channel = pack * kChannels + j;
      float v = sum[o][j] * d.scale.at(channel, 1.0f) + d.bias.at(channel, 0.0f);
      if (d.addend) v += element_of_four<T>(addend, j);
      sum[o][j] = activated(v, d.activation);
    }
    static_cast<Four<T>*>(d.y)[place] = four_of<T>(sum[o]);
  }
}

// The next row is loaded while the products of one are added.
template <class T, int taps, int stride>
__global__ void __launch_bounds__(kThreads, kBlocksEach) depthwise_kernel(Depthwise<T> d) {
  constexpr int kCount = kStrip<T, stride>;
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
    const int px = (strip - row * static_cast<int>(d.by_across.size)) * kCount, py = row - image * d.out_rows;
    const int first = px * stride - d.begin_x, top = py * stride - d.begin_y;
    const int from = max(0, -top), to = min(d.taps_y, d.rows - top);
    const Four<T>* x = static_cast<const Four<T>*>(d.x) + int64_t{image} * d.rows * d.width * d.packs + pack;
    const auto row_of = [&](int t) { return x + int64_t{top + t} * d.width * d.packs; };
    float sum[kCount][kChannels] = {};
    StripRow<T, taps, stride> now, next;
    if (from < to) next.load(d, row_of(from), first);
    for (int t = from; t < to; ++t) {
      now = next;
      if (t + 1 < to) next.load(d, row_of(t + 1), first);
      now.add(d, weights + (t * taps * d.block_packs + lane) * kChannels, sum);
    }
    write_strip<T>(d, (int64_t{row} * d.out_width + px) * d.packs + pack, min(kCount, d.out_width - px), pack,
                   sum);
  }
}

// --- the gradient of the weight

constexpr int kGradientThreads = 256;
constexpr int64_t kMaxChunks = 512;
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
  constexpr int kElements = (kGradientStrip - 1) * stride + taps;
  Words loaded[kElements], gradient[kGradientStrip];
#pragma unroll
  for (int o = 0; o < kGradientStrip; ++o) gradient[o] = o < count ? dy[int64_t{o} * d.packs] : Words{};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int element = first + i;
    loaded[i] = element >= 0 && element < d.width ? row[int64_t{element} * d.packs] : Words{};
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float g[kGradientStrip];
#pragma unroll
    for (int o = 0; o < kGradientStrip; ++o) g[o] = element_of<T>(gradient[o], j);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float value = element_of<T>(loaded[i], j);
#pragma unroll
      for (int o = 0; o < kGradientStrip; ++o)
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
    const int px = (strip - row * static_cast<int>(d.by_across.size)) * kGradientStrip;
    const int y = (row - image * d.out_rows) * stride + tap_y - d.begin_y;
    if (y < 0 || y >= d.rows) continue;
    add_strip<T, taps, stride>(
        d, static_cast<const Words*>(d.x) + (int64_t{image} * d.rows + y) * d.width * d.packs + pack,
        px * stride - d.begin_x, g.dy + (int64_t{row} * d.out_width + px) * d.packs + pack,
        min(kGradientStrip, d.out_width - px), sum);
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
Depthwise<T> depthwise_sizes(const ConvolutionShape& s, bool transposed, int channels, int strip) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const auto& [z, y, x] = s.windows.axis;
  Depthwise<T> d{};
  d.rows = number(transposed ? y.positions : y.size), d.width = number(transposed ? x.positions : x.size);
  d.out_rows = number(transposed ? y.size : y.positions);
  d.out_width = number(transposed ? x.size : x.positions);
  d.begin_y = number(transposed ? y.taps - 1 - y.begin : y.begin);
  d.begin_x = number(transposed ? x.taps - 1 - x.begin : x.begin);
  d.taps_y = number(y.taps);
  d.packs = number(s.groups / channels);
  d.block_packs = number(
      blocks_for(d.packs, blocks_for(d.packs, kMaxBytes / (channels * static_cast<int64_t>(sizeof(T))))));
  d.lines = kThreads / d.block_packs;
  d.flipped = transposed;
  const int64_t across = blocks_for(d.out_width, strip);
  d.strips = number(s.batch * d.out_rows * across);
  d.by_across = make_divisor(across), d.by_rows = make_divisor(d.out_rows);
  return d;
}

template <class T>
Depthwise<T> depthwise_of(const KernelContext& c, const ConvolutionShape& s, bool transposed) {
  Depthwise<T> d = depthwise_sizes<T>(s, transposed, kChannels,
                                      s.windows.axis[2].stride == 1 ? kStrip<T, 1> : kStrip<T, 2>);
  d.x = c.input(0).data, d.weight = c.input(1).as<const T>(), d.y = c.output().data;
  if (transposed) return d;
  d.scale = channel_numbers<T>(c, s.has_scale, 2);
  d.bias = channel_numbers<T>(c, s.has_bias, s.bias_input());
  d.addend = s.has_addend ? c.input(static_cast<int>(s.addend_input())).data : nullptr;
  d.activation = s.activation;
  return d;
}

template <class T, int taps, int stride>
void launch(const KernelContext& c, const Depthwise<T>& d) {
  const int64_t columns = blocks_for(d.packs, d.block_packs), most = launch_of(c).multiprocessors * 8;
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(std::clamp<int64_t>(
                                                      most / columns, 1, blocks_for(d.strips, d.lines))));
  const size_t shared = sizeof(float) * static_cast<size_t>(d.taps_y * taps * d.block_packs * kChannels);
  depthwise_kernel<T, taps, stride><<<grid, kThreads, shared, launch_of(c).stream>>>(d);
}

template <class T, int taps, int stride>
void launch(const KernelContext& c, DepthwiseGradient<T> g) {
  Depthwise<T>& d = g.d;
  d.lines = std::max(1, kGradientThreads / (d.block_packs * d.taps_y));
  const int64_t columns = blocks_for(d.packs, d.block_packs), most = launch_of(c).multiprocessors * 2;
  const int64_t chunks =
      std::clamp<int64_t>(std::min(most / columns, blocks_for(d.strips, d.lines)), 1, kMaxChunks);
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
      DepthwiseGradient<T> g{.d = depthwise_sizes<T>(s, false, 16 / sizeof(T), kGradientStrip)};
      g.d.x = c.input(0).data, g.dy = c.input(1).as<const Words>(), g.dw = c.output().as<T>();
      g.chunks = reinterpret_cast<float*>(c.scratch);
      start(g);
    }
  });
  return true;
}

int64_t chunk_bytes(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  return checked_mul(kMaxChunks * static_cast<int64_t>(sizeof(float)), s.groups * s.windows.taps());
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
