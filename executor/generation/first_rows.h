// Steps over the first rows of the cache alone. A step computes every row that it has, also those without a text, so the engine moves
// texts to the first rows when few are under way, and runs an entry point that has no others.
#pragma once

#include <string>
#include <vector>

#include "executor/generation/cache_budget.h"
#include "executor/generation/cache_rows.h"
#include "executor/session.h"

namespace genesis::generation {

// The numbers of rows that steps can have: those of the session's entry points with first_rows_suffix(), and all.
class StepRows {
 public:
  // With `only_all`, steps have all rows.
  StepRows(const Session& session, size_t rows, bool only_all);

  // Returns the smallest number of rows, of those that steps can have, that is not below `count`.
  size_t at_least(size_t count) const;
  // Returns the entry point of these rows in place of `entry`, which has all of them.
  std::string entry(const std::string& entry, size_t rows) const;

 private:
  std::vector<size_t> sizes_;  // ascending
};

// Returns the number of rows with a request.
size_t busy_rows(const std::vector<Row>& rows);
// Moves the texts of requests into the first `count` rows as far as these have room. A text that such a row keeps for later prompts goes
// to a row behind them that keeps none or an older one; texts of conversations stay. Throws Error if a run fails; then what the row keeps
// that was to be moved is not lost. Returns true if a request has another row now.
bool move_to_first_rows(CacheRows& rows, CacheBudget& budget, size_t count);

}  // namespace genesis::generation
