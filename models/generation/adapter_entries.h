// LoRA adapters (passes/lora/lora.h) beside one base model, of which each row of the KV cache has one or none: texts with different
// adapters are computed in the same steps (S-LoRA, arXiv:2311.03285). A layer's result for a row is
//
//   y = x W^T + bias + (x A[i]^T) B[i]^T    i: the row's adapter; rows without one get no addition
//
// The tokens are sorted by adapter, so that grouped_matmul reads each adapter that some row has, once and in place.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "schema/graph/model.h"

namespace genesis::text {

struct Adapter {
  struct Layer {
    Tensor a, b;  // f32 [rank, in] and f32 [out, rank], which is multiplied by alpha / rank
  };
  std::string name;
  std::map<std::string, Layer> layers;  // by the layer's name: "model.layers.0.self_attn.q_proj"
};

// Returns the adapter of a model of passes::add_lora(). Throws Error if it has none.
Adapter adapter_of(const Model& adapted, const std::string& name);

// Returns the bytes of the states that with_adapters() adds. Ranks of a layer are padded to the largest one.
int64_t adapter_bytes(std::span<const Adapter> adapters);

// Returns a copy of the model, which shares its weights, whose `prefill`, `prefill_row` and `decode` read the state kAdapters
// (executor/generation/entry_points.h): the adapter of each row, from 1; 0: none. Call it for the final number of rows. Throws Error
// for a layer that is not a linear layer of the model, or whose input has no axis of rows.
std::shared_ptr<const Model> with_adapters(const Model& model, std::span<const Adapter> adapters);

}  // namespace genesis::text
