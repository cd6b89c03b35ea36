// Prompts that begin alike: what the cache holds of one text serves another. An engine with EngineOptions::reuse_prefixes uses
// it.
//
// On the CPU, the keys and values of a token depend, in their last bits, on the size of the chunk that it was read in. A text
// must not depend on what was read before it, so only tokens are shared that both texts read in the same chunks: whole chunks of
// the largest size from the beginning of the text on, as far as no later chunk has written them again. Tokens that were chosen
// one by one are read again. Other devices share all tokens.
//
// Texts of another Request::group or with another adapter are not looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "executor/generation/cache_budget.h"
#include "executor/generation/cache_rows.h"
#include "executor/session.h"

namespace genesis::generation {

// Returns Text::shareable after `count` tokens from `at` on were read in one chunk. `unit`: the largest size of a chunk; 1 on
// devices that share all tokens.
int64_t shareable_after(int64_t shareable, int64_t at, int64_t count, int64_t unit);

// A row that holds the beginning of a prompt.
struct Prefix {
  size_t row = 0;
  int64_t tokens = 0;  // a multiple of `unit`, less than the prompt's size
};
// Returns the row that holds most of the request's prompt, and of several the first; rows of conversations and of other groups are
// passed over. Empty if none holds a unit.
std::optional<Prefix> longest_prefix(const std::vector<Row>& rows, const Request& request, int64_t unit);

// Gives a free row with memory for `positions` positions to a request, which must be possible (CacheRows::find_free,
// CacheBudget::has_room): that of its conversation, or one whose cache holds a beginning of the prompt, possibly copied from another
// row. Text::cached says how much. `unit` 0: a row without a text.
Row& give_row(const Session& session, CacheRows& rows, CacheBudget& budget, const Request& request,
              int64_t positions, int64_t unit);

}  // namespace genesis::generation
