// Encodes weights of a model as q8, q4 or q4m (schema/encoding/weight_format.h). The states keep their names and types and are
// encoded in the model itself, so that its file becomes a half or a quarter as large. Graphs do not change; read_quantized()
// rewrites them when they run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schema/encoding/weight_format.h"
#include "schema/graph/model.h"

namespace genesis::passes {

struct QuantizeOptions {
  WeightFormat format = WeightFormat::kQ8;
  bool embedding = false;  // also encodes tables that rows are looked up in
  bool head = false;       // also encodes weights of products that no other product follows: the logits
  // Encodes tables and heads that do not get `format` as q8 instead of leaving them as they are. Their rounding errors reach
  // the logits directly; those of q8 are hardly visible.
  bool tables_as_q8 = false;
  // Patterns of names (passes/core/name_patterns.h) of weights that become q8 instead of `format`: those whose errors cost most.
  std::vector<std::string> as_q8 = {};
  // Patterns of names that are not encoded: by default LoRA's adapters, which are f32 and
  // trained.
  std::vector<std::string> keep = {"*.lora_A.weight", "*.lora_B.weight"};
};

struct QuantizeReport {
  struct Kept {
    std::string name, reason;
  };
  std::vector<std::string> quantized;         // names of states
  std::vector<std::string> in_q8;             // the subset that became q8 instead of `format`
  std::vector<Kept> kept;                     // other weights of products, and why they stay as they are
  int64_t bytes_before = 0, bytes_after = 0;  // bytes of the quantized states
};

// Returns the states that quantize() encodes, with their formats. Throws the Errors of quantize() that need no values.
std::map<int32_t, WeightFormat> formats_to_quantize(const Model& model, const QuantizeOptions& options);

// Encodes and freezes the parameters that products x weight^T read. `encoded` are values of some of these states that are encoded
// already. Throws an Error if an entry point trains one of them, if a value cannot be encoded (NaN, infinity), or if there is
// nothing to quantize; the model is then unchanged.
QuantizeReport quantize(Model& model, const QuantizeOptions& options,
                        std::map<int32_t, EncodedValues> encoded = {});

}  // namespace genesis::passes
