// The design of the decoder of a family: which norms, mixer, rotation and MLP each layer has, and what surrounds the layers. The
// tables of the families choose it; attention.cpp, norm.cpp, mlp.cpp and decoder.cpp build it.
#pragma once

#include <cstdint>
#include <functional>

#include "schema/ops/nn/rope.h"

namespace genesis::models {

enum class NormKind : uint8_t {
  kRms,
  kRmsFromOne,           // RMSNorm whose weight is 1 + w, for the stored w
  kLayer,                // LayerNorm with weight and bias
  kLayerWithoutBias,     // LayerNorm with weight
  kLayerWithoutWeights,  // LayerNorm with neither
};

// The norms of a layer by name: before and after the mixer, before and after the MLP. A layer has no norm at the place of a null.
struct NormPlaces {
  const char* before_mixer = "input_layernorm";
  const char* after_mixer = nullptr;
  const char* before_mlp = "post_attention_layernorm";
  const char* after_mlp = nullptr;
  // false: x + mixer(norm(x)), then x + mlp(norm(x)). true: x + mixer(y) + mlp(y), for y = norm(x) before the mixer.
  bool parallel = false;
};
inline constexpr NormPlaces kNormsBefore = {};
inline constexpr NormPlaces kNormsAfter = {nullptr, "post_attention_layernorm", nullptr,
                                           "post_feedforward_layernorm"};
inline constexpr NormPlaces kNormsAround = {"input_layernorm", "post_attention_layernorm",
                                            "pre_feedforward_layernorm", "post_feedforward_layernorm"};
inline constexpr NormPlaces kParallel = {
    .before_mixer = "input_layernorm", .before_mlp = nullptr, .parallel = true};

// The norms of queries and keys, before their rotation.
enum class HeadNorms : uint8_t {
  kNone,
  kPerHead,     // over a head; all heads share the weights
  kPerHeadOwn,  // over a head; each head has its own weights
  kWhole,       // over the whole projection
};
// The part of a layer that exchanges information between tokens.
enum class MixerKind : uint8_t { kAttention };
// The rotation of queries and keys, by which they know the positions of their tokens.
enum class RotationKind : uint8_t { kNone, kRotary };
enum class MlpKind : uint8_t {
  kSwiGlu,  // down_proj(silu(gate_proj(x)) * up_proj(x))
  kGeGlu,   // the same with GELU (tanh)
  kGelu,    // c_proj(gelu(c_fc(x))), with GELU (tanh)
};

// The design of one layer. A family fixes it, partly by its settings.
struct LayerDesign {
  NormPlaces norms = kNormsBefore;
  MixerKind mixer = MixerKind::kAttention;
  bool qkv_biases = false;   // q, k and v have biases
  bool output_bias = false;  // so has the projection behind attention
  double qkv_limit = 0;      // q, k and v are clamped to this magnitude; 0: not at all
  HeadNorms head_norms = HeadNorms::kNone;
  RotationKind rotation = RotationKind::kRotary;
  RopeKind pairs = RopeKind::kHalf;
  double local_theta =
      0;  // the base of this layer's rotation, which is not scaled; 0: that of the settings, scaled
  // Llama 4's temperature: queries at position p grow by 1 + beta * log(1 + floor(p / original positions)).
  double temperature_beta = 0;
  double score_scale = 0;  // factor of attention scores; 0: 1 / sqrt(head size)
  double score_limit = 0;  // scores s become limit * tanh(s / limit); 0: no limit
  int64_t window = 0;      // number of tokens that attention sees; 0: all
  MlpKind mlp = MlpKind::kSwiGlu;
  bool mlp_biases = false;
  double residual_scale = 1;  // factor of what mixer and MLP add to the stream
};

// The design of what surrounds the layers, and of what all of them have in common.
struct NetworkDesign {
  NormKind norm = NormKind::kRms;  // kind of all norms, also of heads
  int64_t rotary_size = 0;         // number of elements of a head that rotate; 0: all
  double embedding_scale = 1;      // factor of the embeddings
  double logits_scale = 1;         // factor of the logits
  double logits_limit = 0;         // logits l become limit * tanh(l / limit); 0: no limit
};

// Returns the design of a layer; the settings were checked before.
using DesignOfLayer = std::function<LayerDesign(int64_t layer)>;

}  // namespace genesis::models
