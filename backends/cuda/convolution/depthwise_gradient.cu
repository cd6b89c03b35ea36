// The gradient of a depthwise convolution with respect to its weight: the blocks add the products of a part of the strips each, and a
// second kernel adds what they have.
#include "backends/cuda/convolution/depthwise.h"
#include "backends/cuda/convolution/depthwise_kit.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace depthwise {
namespace {

constexpr int kGradientStrip = 4;  // neighbors of a row whose products a thread adds
constexpr int kWeightThreads = 256;
constexpr int64_t kMaxChunks = 512;
constexpr int kStripes = 8;  // threads that add the chunks of a weight

// A block has threads for each row of the window, so that they read the same elements at about the same time. Its sums are a chunk.
template <class T>
struct DepthwiseGradient {
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
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kWeightThreads) {
    const int channel = static_cast<int>(blockIdx.x) * width + i % width;
    if (channel < channels)
      g.chunks[(int64_t{blockIdx.y} * d.taps_y * taps + i / width) * channels + channel] = shared[i];
  }
}

template <class T, int taps, int stride>
__global__ void __launch_bounds__(kWeightThreads) gradient_chunks_kernel(DepthwiseGradient<T> g) {
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

template <class T>
Depthwise<T> gradient_sizes(const ConvolutionShape& s) {
  Depthwise<T> d = depthwise_sizes<T>(s, false, 16 / sizeof(T), kGradientStrip);
  d.lines = std::max(1, kWeightThreads / (d.block_packs * d.taps_y));
  return d;
}

// Returns the chunks of a gradient: two blocks for each multiprocessor of the chip that the plan is for.
int64_t chunks_of(const ConvolutionShape& s) {
  int64_t chunks = 1;
  dispatch_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      const Depthwise<T> d = gradient_sizes<T>(s);
      const int64_t columns = blocks_for(d.packs, d.block_packs), most = planned_chip().multiprocessors * 2;
      chunks = std::clamp<int64_t>(std::min(most / columns, blocks_for(d.strips, d.lines)), 1, kMaxChunks);
    }
  });
  return chunks;
}

struct GradientCall {
  ConvolutionShape shape;  // first, because the plain kernels read it
  int64_t chunks;
};

template <class T, int taps, int stride>
void launch_gradient(const KernelContext& c, const DepthwiseGradient<T>& g) {
  const Depthwise<T>& d = g.d;
  const int64_t columns = blocks_for(d.packs, d.block_packs);
  const int channels = d.packs * static_cast<int>(16 / sizeof(T)), weights = d.taps_y * taps * channels;
  const size_t shared =
      sizeof(float) * static_cast<size_t>(d.taps_y * taps * d.block_packs) * (16 / sizeof(T));
  const cudaStream_t stream = launch_of(c).stream;
  gradient_chunks_kernel<T, taps, stride>
      <<<dim3(static_cast<unsigned>(columns), static_cast<unsigned>(g.chunk_count)), kWeightThreads, shared,
         stream>>>(g);
  add_chunks_kernel<T><<<static_cast<unsigned>(blocks_for(weights, 32)), dim3(32, kStripes), 0, stream>>>(
      g, d.taps_y * taps, channels);
}

template <class T>
struct Gradient : DepthwiseGradient<T> {
  template <int taps, int stride>
  static void launch(const KernelContext& c, const Gradient& g) {
    launch_gradient<T, taps, stride>(c, g);
  }
};

void run_gradient(const KernelContext& c) {
  if (!aligned_to_packs(c)) return run_plain_weight_gradient(c);
  const auto& call = c.prepared<GradientCall>();
  const WindowAxis& x = call.shape.windows.axis[2];
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      Gradient<T> g{{.d = gradient_sizes<T>(call.shape)}};
      g.chunk_count = static_cast<int>(call.chunks);
      g.d.x = c.input(0).data, g.dy = c.input(1).as<const Words>(), g.dw = c.output().as<T>();
      g.chunks = reinterpret_cast<float*>(c.scratch);
      x.stride == 1 ? launch_by_taps<1>(c, g, x.taps) : launch_by_taps<2>(c, g, x.taps);
    }
  });
}

int64_t chunk_bytes(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  return checked_mul(chunks_of(s) * static_cast<int64_t>(sizeof(float)), s.groups * s.windows.taps());
}

std::shared_ptr<const void> prepare_gradient(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  return std::make_shared<GradientCall>(GradientCall{s, chunks_of(s)});
}

}  // namespace
}  // namespace depthwise

KernelImpl depthwise_weight_gradient() {
  return {.name = "depthwise",
          .run = depthwise::run_gradient,
          .can_run = [](const KernelQuery& query) { return depthwise::declines(query, false); },
          .scratch_bytes = depthwise::chunk_bytes,
          .prepare = depthwise::prepare_gradient};
}

}  // namespace genesis::cuda
