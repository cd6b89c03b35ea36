// layer_norm and rms_norm in one pass over memory: a row stays in registers, or in shared memory if it is long.
#include "backends/cuda/device/words.h"
#include "backends/cuda/rows/norm_rows.h"
#include "schema/ops/nn/norm.h"

namespace genesis::cuda {
namespace {

// Two sums that are reduced together.
struct Two {
  float a, b;
  __device__ friend Two operator+(const Two& x, const Two& y) { return {x.a + y.a, x.b + y.b}; }
};

// Either norm, for a row in shared memory.
struct SharedNormRow : NormArguments {
  template <class T, int N, int K>
  __device__ void row(const RowCall& call, const RowLane& lane, Pack<T, N>* shared) const {
    using W = wide_t<T>;
    const SharedRow<T, N> x_row(x, lane, shared, call.cached);
    const auto [mean, inverse] = statistics_of<T, N>(*this, lane, x_row);
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

template <bool kCenter>
struct NormRow : NormArguments {
  static constexpr int kBlocksAtOnce = 2;

  SharedNormRow in_shared() const { return {*this}; }

  // Elements are widened once and stay so. layer_norm of 16-bit elements subtracts the row's first element, so that
  // one reduction gives the sums of both x and its squares: the cancellation is below the precision of 16-bit
  // elements.
  template <class T, int N, int K>
  __device__ void row(const RowCall&, const RowLane& lane, Pack<T, N>*) const {
    constexpr bool kOneLook = kCenter && sizeof(T) == 2;
    const Words* from = static_cast<const Words*>(x) + lane.row * lane.packs;
    Words words[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int i = lane.first + k * lane.step;
      words[k] = i < lane.packs ? from[i] : Words{};
    }
    float d[K][N], mean = 0, squares = 0;
    const float each = 1.0f / static_cast<float>(n),
                pivot = kOneLook ? widen(*reinterpret_cast<const T*>(from)) : 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int j = 0; j < N; ++j) d[k][j] = element_of<T>(words[k], j) - (kOneLook ? pivot : 0);
      if (lane.first + k * lane.step >= lane.packs) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (kCenter) mean += d[k][j];
        if (kOneLook || !kCenter) squares += d[k][j] * d[k][j];
      }
    }
    if constexpr (kOneLook) {
      const Two sums = reduce_group<0>(Two{mean, squares}, lane.step, Add{});
      mean = sums.a * each;
      squares = fmaxf(sums.b - mean * sums.a, 0);
    } else if constexpr (kCenter) {
      mean = reduce_group<0>(mean, lane.step, Add{}) * each;
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (lane.first + k * lane.step >= lane.packs) continue;
#pragma unroll
        for (int j = 0; j < N; ++j) squares += (d[k][j] - mean) * (d[k][j] - mean);
      }
    }
    if constexpr (!kOneLook) squares = reduce_group<1>(squares, lane.step, Add{});
    const float inverse = rsqrtf(squares * each + static_cast<float>(eps));
    Words* to = static_cast<Words*>(y) + lane.row * lane.packs;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t i = lane.first + k * lane.step;
      if (i >= lane.packs) continue;
      float w[N], b[N];
      weight.at(i, 1.0f, w);
      bias.at(i, 0.0f, b);
#pragma unroll
      for (int j = 0; j < N; ++j) b[j] += (kCenter ? d[k][j] - mean : d[k][j]) * inverse * w[j];
      to[i] = words_of<T>(b);
    }
  }
};

template <bool kCenter>
void run_forward(const KernelContext& c, NormArguments a, bool has_weight, bool has_bias) {
  if (c.input(0).numel() == 0) return;
  if (has_weight) a.weight = WideVector::of(c.input(1));
  if (has_bias) a.bias = WideVector::of(c.input(has_weight ? 2 : 1));
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kFew =
        sizeof(T) == 2 ? 2 : 4;  // packs per thread: 16 elements leave registers for more blocks
    start_rows<T>(c, c.input(0).numel() / a.n, a.n, 1, NormRow<kCenter>{a}, kFew);
  });
}

void layer_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::LayerNorm>();
  run_forward<true>(c, arguments_of(c, op.eps, op.num_axes, true), op.has_weight, op.has_bias);
}

void rms_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::RmsNorm>();
  run_forward<false>(c, arguments_of(c, op.eps, op.num_axes, false), op.has_weight, false);
}

constexpr OpKernel kOps[] = {{"layer_norm", {.name = "rows", .run = layer_norm}},
                             {"rms_norm", {.name = "rows", .run = rms_norm}}};

}  // namespace

std::span<const OpKernel> norm_kernels() { return kOps; }

}  // namespace genesis::cuda
