// Makes the entry point that reads several prompts in one run (kFillPacked of executor/generation/entry_points.h). GPUs use it: a run of few
// tokens takes as long as reading the weights.
#pragma once

#include <memory>

#include "schema/graph/model.h"

namespace genesis::text {

// Returns a model with this entry point alone, made of the `prefill_row` of a session's model, for that session to add
// (Session::add_entries()). Null if the model has no `prefill_row`, or if that does more with the cache, or with the places of tokens in
// it, than causal attention does: recurrent layers, scores with limits, adapters of rows, and quantized caches.
std::shared_ptr<const Model> packed_prompts(const Model& model);

}  // namespace genesis::text
