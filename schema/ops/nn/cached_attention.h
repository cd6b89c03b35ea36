// Attention of one new token over a KV cache, for decoding. A pass creates this op from rope, updates of the caches and
// attention, so that one kernel launch can do all of it.
#pragma once

#include "schema/graph/graph.h"
#include "schema/ops/nn/rope.h"

namespace genesis {
namespace ops {

inline constexpr InPlace kCachesInPlace[] = {{1, 3}, {2, 4}};

struct CachedAttention {
  static constexpr OpInfo info{
      .name = "cached_attention",
      .doc =
          "k and v of one new token [batch, 1, heads, size] are written into their caches [batch, positions, "
          "heads, size] at `start`, i64[] or i64[batch], and q attends to the first start + 1 positions, or "
          "to the last `window` of them; where `rotates`, rope rotates q and k by `start` first. Inputs q, "
          "k, v, k_cache, v_cache, start [, frequencies of rope]; outputs y and the caches.",
      .inputs = {6, 7},
      .precision = Precision::kMatmul,
      .in_place = kCachesInPlace,
      .version = 2};
  double scale = 0;  // 0: 1 / sqrt(head_size)
  bool rotates = false;
  double theta = 10000.0;  // theta, kind and rotary_size as in rope
  RopeKind kind = RopeKind::kHalf;
  int64_t rotary_size = 0;
  int64_t window = 0;  // sliding window in tokens; 0: all positions up to start
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale);
    visit("rotates", self.rotates);
    visit("theta", self.theta);
    visit("kind", self.kind);
    visit("rotary_size", self.rotary_size);
    visit("window", self.window);
  }
  // Returns the rope op that rotates q and k.
  Rope rope() const;
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
};

}  // namespace ops

// Returns y and the new caches. A start outside [0, positions) is an error of the run. frequencies: as in rope. Inference only:
// it has no gradient, unlike the ops that it replaces.
std::vector<Value> cached_attention(Value q, Value k, Value v, Value k_cache, Value v_cache, Value start,
                                    const ops::CachedAttention& options = {}, Value frequencies = {});

}  // namespace genesis
