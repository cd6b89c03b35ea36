// Rotary position embedding.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

enum class RopeKind : uint8_t {
  kHalf,         // pairs (i, i + d/2): GPT-NeoX, Llama, Qwen in transformers
  kInterleaved,  // pairs (2i, 2i + 1): GPT-J, the original paper
};

template <>
struct EnumNames<RopeKind> {
  static constexpr std::string_view names[] = {"half", "interleaved"};
};

namespace ops {

struct Rope {
  static constexpr OpInfo info{
      .name = "rope",
      .doc =
          "Pair i of each head's first `rotary_size` elements rotated by position * theta^(-2i / "
          "rotary_size), or by position * frequencies[i] if these are given; `inverse` rotates back. "
          "`heads`: only the first `heads` heads are rotated (0: all). Inputs x, positions [, frequencies].",
      .inputs = {2, 3},
      .precision = Precision::kWide,
      .in_place = kOverFirst};
  double theta = 10000.0;
  RopeKind kind = RopeKind::kHalf;
  int64_t rotary_size = 0;  // 0: the whole head
  bool inverse = false;
  int64_t heads = 0;  // 0: all; otherwise only the first ones, such as queries and keys packed before values
  static void fields(auto& self, auto&& visit) {
    visit("theta", self.theta);
    visit("kind", self.kind);
    visit("rotary_size", self.rotary_size);
    visit("inverse", self.inverse);
    visit("heads", self.heads);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Rotary position embedding of x [batch, time, heads, head_size]. positions: i64[time] or [batch, time]. Rotates the first
// `rotary_size` elements of a head (0: all) of the first `heads` heads (0: all). frequencies: f64[rotary_size / 2] or f64[batch,
// rotary_size / 2], in radians per position; they replace those of theta, for scaled rotations (builder/rope_scaling.h), and get
// no gradient.
// Source: Su et al., "RoFormer: Enhanced transformer with rotary position embedding", 2021.
Value rope(Value x, Value positions, double theta = 10000.0, RopeKind kind = RopeKind::kHalf,
           int64_t rotary_size = 0, int64_t heads = 0, Value frequencies = {});

}  // namespace genesis
