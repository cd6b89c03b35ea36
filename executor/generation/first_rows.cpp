#include "executor/generation/first_rows.h"

#include <algorithm>
#include <optional>

#include "executor/generation/entry_points.h"

namespace genesis::generation {
namespace {

bool is_movable(const Row& row) { return !row.task && row.conversation == 0; }

// Returns the row from `begin` to `end` that can be given another text at the least loss: one that keeps none, or the oldest.
std::optional<size_t> row_to_give(const std::vector<Row>& rows, size_t begin, size_t end) {
  const auto loss = [&](size_t r) { return std::pair(rows[r].text->cached > 0, rows[r].last_used); };
  std::optional<size_t> best;
  for (size_t r = begin; r < end; ++r)
    if (is_movable(rows[r]) && (!best || loss(r) < loss(*best))) best = r;
  return best;
}

// Gives the row `to`, one of the first `count`, what the row `from` holds. A text that it keeps goes to a row behind them, if less is
// lost there. Returns false if the memory has no room for that.
bool place_request(CacheRows& rows, CacheBudget& budget, size_t from, size_t to, size_t count) {
  const std::vector<Row>& all = rows.all();
  if (all[to].text->cached > 0) {
    if (all[from].text->cached == 0 && budget.exchange(rows, from, to)) return true;
    const std::optional<size_t> other = row_to_give(all, count, all.size());
    if (other && (all[*other].text->cached == 0 || all[*other].last_used < all[to].last_used))
      budget.move(rows, to, *other);
  }
  return budget.move(rows, from, to);
}

}  // namespace

StepRows::StepRows(const Session& session, size_t rows, bool only_all) : sizes_({rows}) {
  const std::string entry = decode_name({});
  for (size_t half = rows / 2; half > 1 && !only_all; half /= 2)
    if (session.has_entry(entry + first_rows_suffix(static_cast<int64_t>(half)))) sizes_.push_back(half);
  std::ranges::reverse(sizes_);
}

size_t StepRows::at_least(size_t count) const { return *std::ranges::lower_bound(sizes_, count); }

std::string StepRows::entry(const std::string& entry, size_t rows) const {
  return rows == sizes_.back() ? entry : entry + first_rows_suffix(static_cast<int64_t>(rows));
}

size_t busy_rows(const std::vector<Row>& rows) {
  return static_cast<size_t>(std::ranges::count_if(rows, [](const Row& row) { return row.task != nullptr; }));
}

bool move_to_first_rows(CacheRows& rows, CacheBudget& budget, size_t count) {
  const std::vector<Row>& all = rows.all();
  bool has_moved = false;
  for (size_t from = count; from < all.size(); ++from) {
    if (!all[from].task) continue;
    const std::optional<size_t> to = row_to_give(all, 0, count);
    if (!to) break;
    if (!place_request(rows, budget, from, *to, count)) break;
    has_moved = true;
  }
  return has_moved;
}

}  // namespace genesis::generation
