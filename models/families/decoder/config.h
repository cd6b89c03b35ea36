// The settings that all decoders have. A family that has more derives a struct from this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "builder/rope_scaling.h"
#include "models/decoder.h"

namespace genesis::models {

struct DecoderConfig {
  int64_t vocab_size = 256;
  int64_t hidden_size = 256;
  int64_t intermediate_size = 704;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 2;
  int64_t head_dim = 0;                    // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 1024;  // longest text; also the length of the KV cache
  int64_t cache_positions = 0;             // length of the KV cache; 0: max_position_embeddings
  int64_t batch = 1;                       // rows of the KV cache, each with its own text
  double rope_theta = 1e4;
  nn::RopeScaling rope_scaling = {};
  int64_t sliding_window = 0;  // tokens that sliding attention sees; 0: no sliding attention
  std::vector<std::string> layer_types =
      {};  // sliding_attention or full_attention, by layer; empty: all slide
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;  // standard deviation of every weight
  DType dtype = DType::f32;

  static void fields(auto& self, auto&& visit) {
    visit("vocab_size", self.vocab_size);
    visit("hidden_size", self.hidden_size);
    visit("intermediate_size", self.intermediate_size);
    visit("num_hidden_layers", self.num_hidden_layers);
    visit("num_attention_heads", self.num_attention_heads);
    visit("num_key_value_heads", self.num_key_value_heads);
    visit("head_dim", self.head_dim);
    visit("max_position_embeddings", self.max_position_embeddings);
    visit("cache_positions", self.cache_positions);
    visit("batch", self.batch);
    visit("rope_theta", self.rope_theta);
    nn::RopeScaling::fields(self.rope_scaling, visit);
    visit("sliding_window", self.sliding_window);
    visit("layer_types", self.layer_types);
    visit("rms_norm_eps", self.rms_norm_eps);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("initializer_range", self.initializer_range);
    visit("dtype", self.dtype);
  }
  int64_t head_size() const { return head_dim ? head_dim : hidden_size / num_attention_heads; }
  CacheSize cache_size() const {
    return {batch, cache_positions ? cache_positions : max_position_embeddings};
  }
  // Returns the number of tokens that a layer sees; 0 means all.
  int64_t window_of(int64_t layer) const {
    const bool slides = layer_types.empty() || layer_types[static_cast<size_t>(layer)] == "sliding_attention";
    return slides ? sliding_window : 0;
  }
};

}  // namespace genesis::models
