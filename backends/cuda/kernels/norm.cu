// layer_norm and rms_norm in one pass over memory: a row stays in registers, or in shared memory where it is
// long. Where short rows are many, the next is fetched while one is worked on (norm_forward.h).
#include "backends/cuda/norm_forward.h"
#include "schema/ops/norm.h"

namespace genesis::cuda {
namespace {

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

template <bool kCenter>
void run_forward(const KernelContext& c, NormArguments a, bool has_weight, bool has_bias) {
  if (c.input(0).numel() == 0) return;
  if (has_weight) a.weight = WideVector::of(c.input(1));
  if (has_bias) a.bias = WideVector::of(c.input(has_weight ? 2 : 1));
  dispatch_float(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t rows = c.input(0).numel() / a.n;
    with_packs<T>(c, a.n, [&](auto size) {
      constexpr int N = size();
      if constexpr (N > 1 && sizeof(T) == 2)  // of f32 a row in registers is as fast, and simpler to start
        if (try_norm<kCenter, T, N>(c, a, rows)) return;
      start_rows<T>(c, rows, a.n, 1, NormRow<kCenter>{a});
    });
  });
}

void layer_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::LayerNorm>();
  run_forward<true>(c, arguments_of(c, op.eps, op.num_axes), op.has_weight, op.has_bias);
}

void rms_norm(const KernelContext& c) {
  const auto& op = c.attributes<ops::RmsNorm>();
  run_forward<false>(c, arguments_of(c, op.eps, op.num_axes), op.has_weight, false);
}

constexpr KernelImpl kLayerNorm[] = {{.name = "rows", .run = layer_norm}};
constexpr KernelImpl kRmsNorm[] = {{.name = "rows", .run = rms_norm}};
constexpr OpKernels kOps[] = {{"layer_norm", kLayerNorm}, {"rms_norm", kRmsNorm}};

}  // namespace

std::span<const OpKernels> norm_kernels() { return kOps; }

}  // namespace genesis::cuda
