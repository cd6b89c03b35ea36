#include "backends/cuda/convolution/depthwise.h"

#include "backends/cuda/convolution/depthwise_kit.h"
#include "backends/cuda/convolution/window_kernels.h"

namespace genesis::cuda {
namespace depthwise {
namespace {

constexpr int kBlocksEach = 2;  // blocks of a multiprocessor: 128 registers a thread
constexpr int kChannels = 4;    // channels that a thread computes

// Neighbors of a row that a thread computes: what it reads for them must fit twice into its registers. Maps that would leave most of
// the chip idle have short strips.
template <class T, int stride>
constexpr int kStrip = (stride == 1 ? 8 : 4) * 2 / static_cast<int>(sizeof(T));
constexpr int kShortStrip = 2;

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

// Writes the block's weights as [tap][channel], so that a thread reads those of its channels at once. In memory they follow each other.
template <class T, int taps_x>
__device__ void read_weights(const Depthwise<T>& d, float* shared) {
  constexpr int N = 16 / sizeof(T);
  const int width = d.block_packs * kChannels, taps = d.taps_y * taps_x,
            first = static_cast<int>(blockIdx.x) * width, begin = first * taps,
            end = begin + min(width, d.packs * kChannels - first) * taps;
  const auto* packs = reinterpret_cast<const Words*>(d.weight);
  for (int i = begin / N + static_cast<int>(threadIdx.x); i * N < end; i += kThreads) {
    const Words pack = packs[i];
    int channel = i * N / taps, tap = i * N - channel * taps;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (i * N + j >= begin && i * N + j < end)
        shared[(d.flipped ? taps - 1 - tap : tap) * width + channel - first] = element_of<T>(pack, j);
      if (++tap == taps) tap = 0, ++channel;
    }
  }
}

// The elements of a row of x that a strip meets.
template <class T, int taps, int stride, int kCount>
struct StripRow {
  static constexpr int kElements = (kCount - 1) * stride + taps;
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

// The epilogue of a thread's channels.
template <class T>
struct StripEpilogue {
  float scale[kChannels], bias[kChannels];

  __device__ __forceinline__ void read(const Depthwise<T>& d, int pack) {
#pragma unroll
    for (int j = 0; j < kChannels; ++j) {
      scale[j] = d.scale.at(pack * kChannels + j, 1.0f);
      bias[j] = d.bias.at(pack * kChannels + j, 0.0f);
    }
  }
  __device__ __forceinline__ static float of(float v, ConvolutionActivation activation) {
    if constexpr (sizeof(T) == 2) return quickly_activated(v, activation);
    return activated(v, activation);
  }
  template <int strip>
  __device__ __forceinline__ void write(const Depthwise<T>& d, int64_t at, int count,
                                        float (&sum)[strip][kChannels]) const {
#pragma unroll
    for (int o = 0; o < strip; ++o) {
      if (o >= count) break;
      const int64_t place = at + int64_t{o} * d.packs;
      const Four<T> addend = d.addend ? static_cast<const Four<T>*>(d.addend)[place] : Four<T>{};
#pragma unroll
      for (int j = 0; j < kChannels; ++j) {
        float v = sum[o][j] * scale[j] + bias[j];
        if (d.addend) v += element_of_four<T>(addend, j);
        sum[o][j] = of(v, d.activation);
      }
      static_cast<Four<T>*>(d.y)[place] = four_of<T>(sum[o]);
    }
  }
};

// The next row is loaded while the products of one are added.
template <class T, int taps, int stride, int kCount>
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    depthwise_kernel(const __grid_constant__ Depthwise<T> d) {
  extern __shared__ __align__(16) float weights[];
  pdl_launch_dependents();
  if (d.weight_is_independent) read_weights<T, taps>(d, weights);
  pdl_wait();
  if (!d.weight_is_independent) read_weights<T, taps>(d, weights);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % d.block_packs,
            line = static_cast<int>(threadIdx.x) / d.block_packs;
  const int pack = static_cast<int>(blockIdx.x) * d.block_packs + lane;
  if (line >= d.lines || pack >= d.packs) return;
  StripEpilogue<T> epilogue;
  if constexpr (kCount == kShortStrip) epilogue.read(d, pack);  // long strips leave no registers
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
    StripRow<T, taps, stride, kCount> now, next;
    if (from < to) next.load(d, row_of(from), first);
    for (int t = from; t < to; ++t) {
      now = next;
      if (t + 1 < to) next.load(d, row_of(t + 1), first);
      now.add(d, weights + (t * taps * d.block_packs + lane) * kChannels, sum);
    }
    if constexpr (kCount != kShortStrip) epilogue.read(d, pack);
    epilogue.write(d, (int64_t{row} * d.out_width + px) * d.packs + pack, min(kCount, d.out_width - px), sum);
  }
}

template <class T>
Depthwise<T> depthwise_of(const KernelContext& c, const ConvolutionShape& s, bool transposed, int strip) {
  Depthwise<T> d = depthwise_sizes<T>(s, transposed, kChannels, strip);
  d.x = c.input(0).data, d.weight = c.input(1).as<const T>(), d.y = c.output().data;
  d.weight_is_independent = is_independent(c, 1);
  if (transposed) return d;
  d.scale = channel_numbers<T>(c, s.has_scale, 2);
  d.bias = channel_numbers<T>(c, s.has_bias, s.bias_input());
  d.addend = s.has_addend ? c.input(static_cast<int>(s.addend_input())).data : nullptr;
  d.activation = s.activation;
  return d;
}

template <class T, int taps, int stride, int strip>
void launch_strips(const KernelContext& c, const Depthwise<T>& d) {
  const int64_t columns = blocks_for(d.packs, d.block_packs), most = launch_of(c).multiprocessors * 8;
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(std::clamp<int64_t>(
                                                      most / columns, 1, blocks_for(d.strips, d.lines))));
  const size_t shared = sizeof(float) * static_cast<size_t>(d.taps_y * taps * d.block_packs * kChannels);
  start_with_pdl(launch_of(c), depthwise_kernel<T, taps, stride, strip>, grid, kThreads, shared, d);
}

// The strips have the length that suits the map.
template <class T, int taps, int stride>
void launch_sums(const KernelContext& c, const ConvolutionShape& s, bool transposed) {
  constexpr int kLong = kStrip<T, stride>;
  const Depthwise<T> d = depthwise_of<T>(c, s, transposed, kLong);
  if constexpr (kLong > kShortStrip) {
    const int64_t blocks = blocks_for(d.packs, d.block_packs) * blocks_for(d.strips, d.lines);
    if (blocks < launch_of(c).multiprocessors * kBlocksEach)
      return launch_strips<T, taps, stride, kShortStrip>(c, depthwise_of<T>(c, s, transposed, kShortStrip));
  }
  launch_strips<T, taps, stride, kLong>(c, d);
}

template <class T>
struct Sums {
  const ConvolutionShape& s;
  bool transposed;

  template <int taps, int stride>
  static void launch(const KernelContext& c, const Sums& sums) {
    launch_sums<T, taps, stride>(c, sums.s, sums.transposed);
  }
};

// Returns false if a buffer is not aligned.
bool run_sums(const KernelContext& c, bool transposed) {
  if (!aligned_to_packs(c)) return false;
  const auto& s = c.prepared<ConvolutionShape>();
  const WindowAxis& x = s.windows.axis[2];
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>)
      transposed || x.stride == 1 ? launch_by_taps<1>(c, Sums<T>{s, transposed}, x.taps)
                                  : launch_by_taps<2>(c, Sums<T>{s, transposed}, x.taps);
  });
  return true;
}

}  // namespace
}  // namespace depthwise

KernelImpl depthwise_convolution() {
  return {.name = "depthwise",
          .run =
              [](const KernelContext& c) {
                if (!depthwise::run_sums(c, false)) run_plain_convolution(c);
              },
          .can_run = [](const KernelQuery& query) { return depthwise::declines(query, false); },
          .prepare = prepare_convolution};
}

KernelImpl depthwise_transposed() {
  return {.name = "depthwise",
          .run =
              [](const KernelContext& c) {
                if (!depthwise::run_sums(c, true)) run_plain_transposed(c);
              },
          .can_run = [](const KernelQuery& query) { return depthwise::declines(query, true); },
          .prepare = prepare_convolution};
}

}  // namespace genesis::cuda
