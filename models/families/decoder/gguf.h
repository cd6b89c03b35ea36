// Decoders in GGUF files: their metadata and the names of their tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/families.h"

namespace genesis::models {

// The windows of a family whose files may have attention.sliding_window and attention.sliding_window_pattern: the number of tokens
// that a layer sees, and the layers that see no more. A pattern of n says all layers but the last of each n.
struct GgufWindows {
  int64_t size = 0;     // the default where a file has no number; 0: no windows
  int64_t pattern = 0;  // the default where a file has no pattern; 0: all layers have the window
};

// The differences between the files of a family and those of a Llama.
struct DecoderGguf {
  std::string architecture;    // "qwen2"
  std::string pre_tokenizer;   // the default where a file names none
  bool rows_in_pairs = false;  // llama.cpp reorders the rows of queries and keys
  const char* norm_eps = "attention.layer_norm_rms_epsilon";
  bool rotates_parts = false;               // rope.dimension_count says which part of a head rotates
  std::optional<GgufWindows> windows = {};  // empty: files with windows are refused
  // Names of layers in the zoo by their names in a block of the file, such as ffn_norm; an empty name removes that of Llama.
  std::map<std::string, std::string> layers = {};
  ConfigEntries more = {};
  // Members of GgufForm.
  std::string mark = {};
  std::vector<TensorFlag> flags = {};
  std::vector<FusedWeights> fused = {};
  std::vector<std::string> from_one = {};
  std::vector<OrderedRows> ordered = {};
  std::vector<ArrangedWeight> arranged = {};
  std::string other_architecture = {};
  // Entries that take the place of those of a Llama whose first setting is the same. One of head_dim also says which part rotates.
  ConfigEntries instead = {};
  std::string blocks = "model.layers.";
};

GgufForm decoder_gguf(const DecoderGguf& d);

// Returns a number or a flag of a layer from metadata that are a list with a number or a byte for each layer, or one number for all;
// 0 where there is none.
int64_t gguf_number_of_layer(const nlohmann::json& list, int64_t layer);
// Returns an entry of a number that is 0 or more, and 0 where it is absent.
ConfigEntry gguf_count_entry(const std::string& name, const std::string& setting);
// Blocks at the end of a file may predict further tokens: they are no layers of the model, and have to be ignored by their names.
ConfigEntry gguf_layers_entry();

// The epsilon of families with LayerNorm.
inline constexpr const char* kLayerNormEps = "attention.layer_norm_epsilon";

// The entry of Gemma's query_pre_attn_scalar, which no metadata say. As in llama.cpp, it is the size of a head, and in the model
// of 27 billion parameters, which has `layers_of_27b` layers, embedding_length / attention.head_count.
ConfigEntry gemma_score_entry(int64_t layers_of_27b);

}  // namespace genesis::models
