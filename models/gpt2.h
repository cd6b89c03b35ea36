// GPT-2 as a configurable graph. Parameters have the names of transformers ("transformer.h.0.attn.c_attn.weight"), but weights
// are [out_features, in_features]. Entry points: models/decoder.h.
#pragma once

#include <cstdint>
#include <memory>

#include "models/decoder.h"

namespace genesis::models {

struct Gpt2Config {
  int64_t vocab_size = 256;
  int64_t n_positions = 1024;   // longest text; also the length of the KV cache
  int64_t cache_positions = 0;  // length of the KV cache if it is shorter; 0: n_positions
  int64_t batch = 1;            // rows of the KV cache, each with its own text
  int64_t n_embd = 256;
  int64_t n_layer = 4;
  int64_t n_head = 4;
  double dropout = 0;
  double layer_norm_epsilon = 1e-5;
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  DType dtype = DType::f32;

  static void fields(auto& self, auto&& visit) {
    visit("vocab_size", self.vocab_size);
    visit("n_positions", self.n_positions);
    visit("cache_positions", self.cache_positions);
    visit("batch", self.batch);
    visit("n_embd", self.n_embd);
    visit("n_layer", self.n_layer);
    visit("n_head", self.n_head);
    visit("dropout", self.dropout);
    visit("layer_norm_epsilon", self.layer_norm_epsilon);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("initializer_range", self.initializer_range);
    visit("dtype", self.dtype);
  }
  CacheSize cache_size() const { return {batch, cache_positions ? cache_positions : n_positions}; }
};

std::unique_ptr<Model> make_gpt2(const Gpt2Config& config, uint64_t seed = 0);

}  // namespace genesis::models
