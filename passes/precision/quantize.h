// Weights of a model as q8 or q4 (schema/encoding/weight_format.h): the states keep their names and types and are encoded in
// the model itself, so that its file takes half or a quarter of the room. Graphs stay as they are; read_quantized() is what
// happens to them when they run. Used by genesis-opt --quantize.
#pragma once

#include <string>
#include <vector>

#include "schema/encoding/weight_format.h"
#include "schema/graph/model.h"

namespace genesis::passes {

struct QuantizeOptions {
  WeightFormat format = WeightFormat::kQ8;
  bool embedding = false;  // tables that rows are looked up in get this format, too
  bool head = false;       // products that no other product follows, too: the logits
  // Tables and heads that do not get `format` are kept as q8 instead of as they are. Their rounding reaches the logits directly,
  // and in q8 it is hardly seen.
  bool tables_as_q8 = false;
  // Patterns of names (passes/core/name_patterns.h) that stay as they are: those of LoRA's adapters, which are f32 and trained.
  std::vector<std::string> keep = {"*.lora_A.weight", "*.lora_B.weight"};
};

struct QuantizeReport {
  struct Kept {
    std::string name, reason;
  };
  std::vector<std::string> quantized;         // states
  std::vector<std::string> in_q8;  // those of them that `tables_as_q8` gave another format than the rest
  std::vector<Kept> kept;                     // other weights of products, and why they stay as they are
  int64_t bytes_before = 0, bytes_after = 0;  // of those that are quantized
};

// Parameters that products x weight^T read are encoded, and frozen. Throws Error where an entry point trains one, where
// a value cannot be encoded (NaN, infinity), and where there is nothing to quantize; then nothing has changed.
QuantizeReport quantize(Model& model, const QuantizeOptions& options);

}  // namespace genesis::passes
