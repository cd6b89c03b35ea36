// Makes the entry points that choose the next tokens on the device (executor/generation/entry_points.h) from `prefill` and
// `decode` of a language model whose KV cache has one row or several (models/decoder.h). There is no prefill_and_sample if prefill
// does not take the rows of its last token by exactly one slice.
#pragma once

#include <memory>

#include "executor/generation/entry_points.h"
#include "schema/graph/model.h"

namespace genesis::text {

using generation::decode_name;
using generation::kCopyRow;
using generation::kFillCache;
using generation::kFillRow;
using generation::kStopsOfRow;
using generation::positions_of_cache;
using generation::prefill_name;
using generation::rows_of_cache;
using generation::SamplingFeatures;
using generation::takes_text_length;

// Returns a copy of the model with these entry points, which shares its weights; the model itself if it has them already. Throws
// Error if its `prefill` and `decode` are not those of models/decoder.h.
std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model);

// Returns a model with the entry points decode_and_sample... for the first `rows` rows of the cache alone, which has more of them; their
// names end in first_rows_suffix(). A session of with_sampling_entries() can add them (Session::add_entries()).
std::shared_ptr<const Model> steps_of_first_rows(const Model& model, int64_t rows);

}  // namespace genesis::text
