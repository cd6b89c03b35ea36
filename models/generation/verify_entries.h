// Makes the entry points verify_N that read drafted tokens and choose one behind each (executor/generation/entry_points.h) from
// `decode` of a language model: reading N tokens of a row is decoding N rows at a time that share a row of the cache. So the
// products of a token are those of decoding, which on the CPU have the same bits for every number of rows.
#pragma once

#include <memory>

#include "schema/graph/model.h"

namespace genesis::text {

// The number of queries of one attention node. On the CPU attention of up to this many queries computes each like a single one
// (backends/cpu/attention/decode).
inline constexpr int64_t kQueriesLikeOne = 4;

// Returns a copy of the model, one with the entry points of sampling_entries.h, that has these entry points too. With `exact`,
// attention is cut so that the CPU gives the bits of single steps. Throws Error that says why a model cannot have them: its rotary
// frequencies depend on the length of the text, or its attention is no single op, or its file is of an older version.
std::shared_ptr<const Model> with_verify_entries(const std::shared_ptr<const Model>& model, bool exact);

}  // namespace genesis::text
