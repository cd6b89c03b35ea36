// Prompts that several requests have: one row of the cache reads such a prompt, and the others copy what it holds. The chunks of a
// prompt depend on its length alone, so that a text is the one that it would be if it had read its prompt itself. Requests of
// another Request::group are not looked at.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "executor/generation/cache_budget.h"
#include "executor/generation/cache_rows.h"

namespace genesis::generation {

// Returns the row that has read, or is the first that will read, the whole prompt of row `row`, which reads; empty if it is that
// row itself, or if its request shares no prompt.
std::optional<size_t> row_with_prompt_of(const std::vector<Row>& rows, size_t row);

// Copies the prompts of those of the rows `reading` that other rows have read by now. Returns the rows whose prompts are in the
// cache then. Throws Error if a run fails.
std::vector<size_t> copy_prompts(CacheBudget& budget, std::vector<Row>& rows,
                                 std::span<const size_t> reading);

}  // namespace genesis::generation
