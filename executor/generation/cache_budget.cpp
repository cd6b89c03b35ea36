#include "executor/generation/cache_budget.h"

#include <algorithm>

#include "executor/generation/entry_points.h"
#include "schema/core/error.h"
#include "schema/messages/human_bytes.h"

namespace genesis::generation {

CacheBudget::CacheBudget(Session& session, size_t rows, int64_t capacity, int64_t bytes)
    : session_(session), bytes_(bytes), positions_(rows, 0) {
  if (bytes == 0) return;
  pages_.emplace(session, CachePages::Use::kPages, bytes);
  const int64_t least = bytes_of(capacity) + (std::ssize(positions_) - 1) * bytes_of(0);
  if (bytes < least)
    fail(
        "a cache of {} has no room for one text of {} tokens beside {} other rows: it takes {}; fewer rows "
        "or "
        "shorter texts need less",
        human_bytes(bytes), capacity, positions_.size() - 1, human_bytes(least));
}

int64_t CacheBudget::used() const {
  int64_t bytes = 0;
  if (is_limited())
    for (const int64_t positions : positions_) bytes += bytes_of(positions);
  return bytes;
}

// Returns the bytes of all rows when those without a request have nothing but one of them `positions` positions.
int64_t CacheBudget::bytes_of_busy(const std::vector<Row>& rows, int64_t positions) const {
  int64_t bytes = bytes_of(positions) - bytes_of(0);
  for (size_t r = 0; r < rows.size(); ++r) bytes += bytes_of(rows[r].task ? positions_[r] : 0);
  return bytes;
}

bool CacheBudget::has_room(const std::vector<Row>& rows, int64_t positions) const {
  return !is_limited() || bytes_of_busy(rows, positions) <= bytes_;
}

bool CacheBudget::has_room_beside(const std::vector<Row>& rows, size_t kept, int64_t positions) const {
  if (!is_limited()) return true;
  const int64_t own = rows[kept].task ? 0 : bytes_of(positions_[kept]) - bytes_of(0);
  return bytes_of_busy(rows, positions) + own <= bytes_;
}

void CacheBudget::make_room(CacheRows& rows, size_t row, size_t kept, int64_t positions) {
  if (!is_limited()) return;
  std::vector<Row>& all = rows.all();
  while (used() - bytes_of(positions_[row]) + bytes_of(positions) > bytes_) {
    std::optional<size_t> oldest;
    for (size_t r = 0; r < all.size(); ++r) {
      if (all[r].task || r == row || r == kept || positions_[r] == 0) continue;
      if (!oldest || all[r].last_used < all[*oldest].last_used) oldest = r;
    }
    if (!oldest) return;
    rows.assign(all[*oldest], 0);
    set(*oldest, 0);
  }
}

void CacheBudget::set(size_t row, int64_t positions) {
  if (!is_limited()) return;
  if (positions != positions_[row]) pages_->keep(static_cast<int64_t>(row), positions);
  positions_[row] = positions;
}

// An idle row writes the last token of its text again in each step, so that one is kept behind those that can be shared.
void CacheBudget::release(Row& row, size_t index) {
  if (!is_limited()) return;
  Text& text = *row.text;
  if (row.conversation == 0) text.cached = std::min(text.cached, text.shareable > 0 ? text.shareable + 1 : 0);
  set(index, text.cached);
}

void CacheBudget::copy(size_t from, size_t to, int64_t positions) {
  const auto from_row = static_cast<int64_t>(from), to_row = static_cast<int64_t>(to);
  if (is_limited()) return pages_->copy(from_row, to_row, positions);
  if (CachePages::can_copy(session_))
    return CachePages(session_, CachePages::Use::kCopiesOnly).copy(from_row, to_row, positions);
  session_.run(kCopyRow,
               {{"from", Tensor::scalar<int64_t>(from_row)}, {"to", Tensor::scalar<int64_t>(to_row)}});
}

bool CacheBudget::move(CacheRows& rows, size_t from, size_t to) {
  const int64_t positions = positions_[from], cached = rows.all()[from].text->cached;
  make_room(rows, to, from, positions);
  if (is_limited() && used() - bytes_of(positions_[to]) + bytes_of(positions) > bytes_) return false;
  rows.assign(rows.all()[to], 0);
  set(to, positions);
  if (cached > 0) copy(from, to, cached);
  rows.exchange(from, to);
  set(from, 0);
  return true;
}

bool CacheBudget::exchange(CacheRows& rows, size_t from, size_t to) {
  const int64_t wanted = positions_[from], kept = positions_[to], most = std::max(wanted, kept);
  if (is_limited() && used() - bytes_of(wanted) + bytes_of(most) > bytes_) return false;
  set(from, most);
  try {
    copy(to, from, rows.all()[to].text->cached);
  } catch (const Error&) {
    set(from, wanted);
    throw;
  }
  set(from, kept);
  set(to, wanted);
  rows.exchange(from, to);
  return true;
}

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

// Moves the text that a row keeps to a row from `begin` on where less is lost. Returns true if it has another row now.
bool save_kept_text(CacheRows& rows, CacheBudget& budget, size_t row, size_t begin) {
  const std::vector<Row>& all = rows.all();
  const std::optional<size_t> to = row_to_give(all, begin, all.size());
  return to && (all[*to].text->cached == 0 || all[*to].last_used < all[row].last_used) &&
         budget.move(rows, row, *to);
}

}  // namespace

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
    const bool keeps_text = all[*to].text->cached > 0;
    if (keeps_text && all[from].text->cached == 0 && budget.exchange(rows, from, *to)) {
      has_moved = true;
      continue;
    }
    if (keeps_text) has_moved |= save_kept_text(rows, budget, *to, count);
    if (!budget.move(rows, from, *to)) break;
    has_moved = true;
  }
  return has_moved;
}

}  // namespace genesis::generation
