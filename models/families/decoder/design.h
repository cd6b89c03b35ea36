// The design of the decoder of a family: which norms, mixer, rotation and MLP each layer has, and what surrounds the layers. The
// tables of the families choose it; attention.cpp, norm.cpp, mlp.cpp and decoder.cpp build it.
#pragma once

#include <array>
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
// One norm before the only part of a layer: a mixer, or an MLP.
inline constexpr NormPlaces kMixerAlone = {.before_mixer = "norm", .before_mlp = nullptr};
inline constexpr NormPlaces kMlpAlone = {.before_mixer = nullptr, .before_mlp = "norm"};
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
enum class MixerKind : uint8_t {
  kAttention,
  kLatentAttention,
  kShortConvolution,
  kGatedDelta,
  kMamba2,
  kAttentionBesideMamba2,  // the sum of both
  kNone,                   // the layer is an MLP
};
// The rotation of queries and keys, by which they know the positions of their tokens.
enum class RotationKind : uint8_t { kNone, kRotary };
enum class MlpKind : uint8_t {
  kSwiGlu,       // down_proj(silu(gate_proj(x)) * up_proj(x))
  kGeGlu,        // the same with GELU (tanh)
  kGelu,         // c_proj(gelu(c_fc(x))), with GELU (tanh)
  kSquaredRelu,  // down_proj(relu(up_proj(x))^2)
  kNone,         // the layer is a mixer
};

// The sizes of latent attention.
struct LatentDesign {
  int64_t q_rank = 0;    // size of the short vector from which queries are computed; 0: there is none
  int64_t kv_rank = 0;   // the same for keys and values; the cache holds these vectors
  int64_t staying = 0;   // elements of a query that do not rotate ...
  int64_t rotating = 0;  // ... and those that do; all heads share the keys of these
  int64_t value = 0;     // elements of a head's result
};

// A gated convolution over the last few tokens of each feature.
struct ConvolutionDesign {
  int64_t taps = 3;     // tokens that it reads, at least two
  bool biases = false;  // the convolution and both products have them
  // Its cache has the last taps - 1 tokens of a text, and not all: for layers with a recurrent state, which cannot go back either.
  bool keeps_last = false;
};

// The sizes of the gated delta rule. Each key head serves as many value heads, which follow each other.
struct DeltaDesign {
  int64_t key_heads = 0, value_heads = 0, key_size = 0, value_size = 0;
  int64_t taps = 4;  // tokens that the convolution before it reads
  // Each input has a product of its own (in_proj_qkv, _z, _b, _a); otherwise in_proj_qkvz and _ba have them all, by key head.
  bool is_split = false;

  int64_t keys() const { return key_heads * key_size; }
  int64_t values() const { return value_heads * value_size; }
};

// The norm of what Mamba2 computes, over each group of features, and the place of the factor silu(z).
enum class MambaNorm : uint8_t {
  kOfGated,    // norm(y * silu(z))
  kGatedNorm,  // norm(y) * silu(z)
  kNone,       // y * silu(z)
};
// The sizes of Mamba2. Each group has a vector B and a vector C for as many heads, which follow each other.
struct MambaDesign {
  int64_t heads = 0, head_size = 0, groups = 1, state_size = 0;
  int64_t taps = 4;  // tokens that the convolution before it reads
  bool convolution_bias = true;
  bool biases = false;  // in_proj and out_proj have biases
  double least_step = 0,
         greatest_step = 0;  // steps are clamped to this range; a greatest one of 0: there is none
  MambaNorm norm = MambaNorm::kOfGated;
  double in_scale = 1, out_scale = 1;                   // factors of what in_proj reads and out_proj gives
  std::array<double, 5> part_scales = {1, 1, 1, 1, 1};  // factors of z, x, B, C and the steps, behind in_proj

  int64_t features() const { return heads * head_size; }
  int64_t convolved() const { return features() + 2 * groups * state_size; }
};

// The numbers by which a token chooses its experts, and the factors of what these compute.
enum class RouterScores : uint8_t {
  kSoftmax,          // softmax over all experts
  kSoftmaxOfChosen,  // softmax over the chosen experts
  kSigmoid,          // sigmoid of each expert's number alone
};

// A mixture of experts in the place of the MLP. The names are those of modules below that of the MLP.
struct ExpertsDesign {
  int64_t count = 0;   // number of experts; 0: the layer has an MLP
  int64_t chosen = 1;  // experts of each token
  int64_t intermediate_size = 0;
  RouterScores scores = RouterScores::kSoftmax;
  bool normalized = false;  // the factors of a token's experts add up to 1 ...
  double least_sum = 0;     // ... but for this number, which is added to their sum before the division
  double factor = 1;        // multiplies them last
  // Experts form groups of equal size, of which a token uses as many: those with the greatest sums of their best scores.
  int64_t groups = 1, chosen_groups = 1;
  int64_t best_of_group = 2;  // number of scores in such a sum
  const char* choice_bias =
      nullptr;              // the buffer that is added to the scores for the choice alone; null: none
  int64_t shared_size = 0;  // intermediate size of an expert that all tokens use; 0: there is none
  const char* shared = "shared_expert";
  // The product whose sigmoid multiplies the shared expert's result; null: none.
  const char* shared_gate = nullptr;
  bool biases = false;  // the router and the products of experts have biases
  // Above 0: instead of silu(g) * u experts compute g * sigmoid(gate_slope * g) * (u + 1), for g of at most this limit and u
  // within it.
  double limit = 0;
  double gate_slope = 1;
  // Factor of the loss that is least if all experts get equally many tokens; 0: no such loss.
  double balance_loss = 0;
  double z_loss = 0;           // factor of the loss that keeps the router's numbers small; 0: no such loss
  const char* module = "mlp";  // null: router and experts are modules of the layer
  const char* router = "gate";
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";  // below `experts`
  // Experts without a gate, which is null, compute down(relu(up(x))^2), and so does the shared one.
  bool has_gate() const { return gate != nullptr; }
  // Above 0: experts read latent_in(x), of so many features, and latent_out multiplies the sum of what they compute.
  int64_t latent_size = 0;
  const char *latent_in = "fc1_latent_proj", *latent_out = "fc2_latent_proj";
  bool gelu = false;  // GELU (tanh) takes the place of silu
  // The module of the router of Gemma 4, which reads norm(x) * scale / sqrt(hidden size) and multiplies the factor of an expert by
  // that of per_expert_scale; null: another router.
  const char* scaled_router = nullptr;
  double eps = 1e-6;  // router and experts have norms with this epsilon
  const char* read_norm =
      nullptr;  // the norm of what experts read, and the router does not, beside the module; null: none
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
  // q_proj has for each head the query, then as many numbers, whose sigmoid multiplies the head's result.
  bool output_gates = false;
  bool sinks = false;  // each head has a score of no token, which lessens the weights of its tokens
  int64_t window = 0;  // number of tokens that attention sees; 0: all
  // Sizes of this layer; 0: those of the settings.
  int64_t head_size = 0, key_value_heads = 0, intermediate_size = 0;
  bool value_norms = false;      // each head's value has a norm without weights
  bool values_are_keys = false;  // the values are the keys before their norm and rotation: there is no v_proj
  int64_t keys_of = -1;  // the earlier layer whose keys and values attention reads; -1: it has its own
  MlpKind mlp = MlpKind::kSwiGlu;
  bool mlp_biases = false;
  double mlp_gate_scale = 1, mlp_out_scale = 1;  // factors behind gate_proj and down_proj of kSwiGlu
  const char* mlp_module = "mlp";
  const char* mixer_module = nullptr;  // null: "self_attn", "conv", "linear_attn" or "mamba", by the kind
  LatentDesign latent = {};            // sizes for MixerKind::kLatentAttention
  ConvolutionDesign convolution = {};  // for MixerKind::kShortConvolution
  DeltaDesign delta = {};              // for MixerKind::kGatedDelta
  MambaDesign mamba = {};              // for MixerKind::kMamba2 and kAttentionBesideMamba2
  double attention_in_scale = 1,
         attention_out_scale = 1;  // factors of what attention beside Mamba2 reads and gives
  ExpertsDesign experts = {};
  // The layer has an MLP and experts, which read the same. Each result has a norm of its own (after_mlp with _1 and _2), and their
  // sum the usual one.
  bool experts_beside_mlp = false;
  double residual_scale = 1;  // factor of what mixer and MLP add to the stream
};

// The design of what surrounds the layers, and of what all of them have in common.
struct NetworkDesign {
  NormKind norm = NormKind::kRms;  // kind of all norms, also of heads
  int64_t rotary_size = 0;         // number of elements of a head that rotate; 0: all
  double embedding_scale = 1;      // factor of the embeddings
  double logits_scale = 1;         // factor of the logits
  double logits_limit = 0;         // logits l become limit * tanh(l / limit); 0: no limit
  // Above 0: behind the MLP, each layer adds what it makes of a vector of this size, which each token has for it
  // (layer_embeddings.h), looked up in a table of so many rows.
  int64_t layer_embedding_size = 0, layer_embedding_rows = 0;
  bool layer_scalars = false;  // the result of each layer is multiplied by a number of its own
  // Names of modules: the one around all but the head, and the embedding and the last norm below it.
  const char *module = "model", *embedding = "embed_tokens", *last_norm = "norm";
};

// Returns the design of a layer; the settings were checked before.
using DesignOfLayer = std::function<LayerDesign(int64_t layer)>;

}  // namespace genesis::models
