// cached_attention: lists its kernel implementations, best first, each in its own folder. The last one, decomposed,
// takes any size and dtype. Also holds what they share: the description of a node and of a run.
#include <cmath>

#include "backends/common/decomposed_cached_attention.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/kernels/nn/cached_call.h"
#include "backends/cuda/moves/moves.h"
#include "schema/ops/nn/cached_attention.h"

namespace genesis::cuda {
namespace {

constexpr int kLengthThreads = 128;

std::shared_ptr<const void> prepare_decomposed(const KernelQuery& query) {
  return std::make_shared<DecomposedCachedAttention>(kernels_for, true, query);
}

int64_t decomposed_scratch(const KernelQuery& query) {
  return DecomposedCachedAttention(kernels_for, false, query).scratch_bytes();
}

__global__ void write_lengths(const int64_t* start, int64_t count, int64_t positions, int64_t* to,
                              FaultReport fault) {
  begin_in_order();
  for (int64_t i = threadIdx.x; i < count; i += kLengthThreads) {
    const int64_t given = start[i];
    if (given < 0 || given >= positions) fault(given, positions);
    to[i] = given < 0 ? 0 : given >= positions ? positions : given + 1;
  }
}

void run_decomposed_cache(const KernelContext& k) {
  Launch launch = launch_of(k);
  launch.independent = 0;  // the kernels of the decomposition have their own inputs
  KernelContext inner = k;
  inner.launch = &launch;
  k.prepared<DecomposedCachedAttention>().run(inner, [](const KernelContext& c, int64_t* to) {
    start_with_pdl(c, write_lengths, 1, kLengthThreads, 0, c.input(5).as<const int64_t>(), c.input(5).numel(),
                   c.input(3).dim(1), to, launch_of(c).fault);
  });
}

}  // namespace

CachedCall cached_call(const KernelQuery& query) {
  CachedCall c;
  const auto op = from_attributes<ops::CachedAttention>(query.attributes);
  const auto cache = query.inputs[3].shape.sizes();
  c.positions = cache[1];
  c.key_heads = static_cast<int>(cache[2]);
  c.scale = static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(cache[3])));
  const int64_t rotated = op.rotary_size == 0 ? cache[3] : op.rotary_size;
  c.pairs = op.rotates ? static_cast<int>(rotated / 2) : 0;
  c.rotate_half = op.kind == RopeKind::kHalf;
  c.window = static_cast<int>(std::min<int64_t>(op.window, kMaxCachedPositions + 1));
  c.start_step = query.inputs[5].shape.rank();
  for (int i = 0; i < c.pairs; ++i)
    c.of_theta[i] = std::pow(op.theta, -2.0 * i / static_cast<double>(rotated));
  return c;
}

CachedCall with_data(CachedCall c, const KernelContext& k) {
  const bool in_place = k.output(1).data == k.input(3).data && k.output(2).data == k.input(4).data;
  copy_whole(k, k.output(1), k.input(3));
  copy_whole(k, k.output(2), k.input(4));
  c.q = k.input(0).data;
  c.k = k.input(1).data;
  c.v = k.input(2).data;
  c.start = k.input(5).as<const int64_t>();
  if (k.inputs.size() > 6) {
    c.frequencies = k.input(6).as<const double>();
    c.frequencies_step = k.input(6).rank == 2 ? c.pairs : 0;
  }
  c.y = k.output(0).data;
  c.k_cache = k.output(1).data;
  c.v_cache = k.output(2).data;
  c.partials = reinterpret_cast<float*>(k.scratch);
  c.fault = launch_of(k).fault;
  c.independent = in_place && is_independent(k, 3) && is_independent(k, 4) && is_independent(k, 5) &&
                  (k.inputs.size() < 7 || is_independent(k, 6));
  c.packed = aligned_to_packs(k.output(1), k.output(2));
  return c;
}

std::optional<std::string> decline_cached(const KernelQuery& query) {
  const TensorType &q = query.inputs[0], &k_cache = query.inputs[3], &v_cache = query.inputs[4];
  if (q.dtype == DType::f64) return "it computes in f32, the operands are f64";
  if (query.outputs[0].numel() == 0 || k_cache.numel() == 0) return "there is nothing to compute";
  if (k_cache.shape[3].value() != v_cache.shape[3].value())
    return "it takes one head size for keys and values";
  if (k_cache.shape[1].value() > kMaxCachedPositions || q.numel() > kMaxCachedPositions)
    return "it counts in 32 bits";
  return std::nullopt;
}

std::span<const OpKernel> cached_attention_kernels() {
  static const OpKernel ops[] = {{"cached_attention", grouped_attention_implementation()},
                                 {"cached_attention", one_start_implementation()},
                                 {"cached_attention",
                                  {.name = "decomposed",
                                   .run = run_decomposed_cache,
                                   .scratch_bytes = decomposed_scratch,
                                   .prepare = prepare_decomposed}}};
  return ops;
}

}  // namespace genesis::cuda
