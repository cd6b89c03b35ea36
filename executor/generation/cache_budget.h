// Decides which row of the cache has memory for how many positions, when the rows share less memory than their longest texts need
// (admission by reservation). A request begins when the memory for its prompt and all tokens that it may choose is free, so that
// it can always end: nothing is preempted and nothing runs out. Texts that rows keep for later prompts use what is left, and give
// it up, least recently used first.
//
// Without a limit every row has memory for its longest text, and this class only copies rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "executor/cache_pages.h"
#include "executor/generation/cache_rows.h"

namespace genesis::generation {

class CacheBudget {
 public:
  // `bytes` is the memory of all rows, in pages (executor/cache_pages.h); 0: no limit. Throws Error if one text of `capacity`
  // positions does not fit, and the errors of CachePages.
  CacheBudget(Session& session, size_t rows, int64_t capacity, int64_t bytes);

  bool is_limited() const { return pages_.has_value(); }
  // Returns the bytes that the rows have now, 0 without a limit.
  int64_t used() const;

  // Returns true if a request that needs `positions` positions can begin: it fits beside those under way.
  bool has_room(const std::vector<Row>& rows, int64_t positions) const;
  // Returns true if the text that row `kept` holds can stay while another row gets `positions` positions.
  bool has_room_beside(const std::vector<Row>& rows, size_t kept, int64_t positions) const;
  // Takes texts from rows without a request, those of `row` and `kept` last of all, until `row` can have `positions` positions.
  void make_room(CacheRows& rows, size_t row, size_t kept, int64_t positions);
  // Reserves the first `positions` positions of a row. What it held behind them is given back.
  void set(size_t row, int64_t positions);
  // A chunk of a prompt has been read, which writes its row as a whole: gives back what lies behind the reservation.
  void trim(size_t row) {
    if (is_limited()) pages_->keep(static_cast<int64_t>(row), positions_[row]);
  }
  // A request has ended: its row keeps what its text has in the cache and later prompts may use.
  void release(Row& row, size_t index);
  // Gives row `to` the first `positions` positions of row `from`. Throws Error if a run fails.
  void copy(size_t from, size_t to, int64_t positions);
  // Moves what a row holds, its request included, to another row, which has no request and loses its text. Idle rows give up
  // theirs where memory is short. Returns false, and moves nothing, if it has no room for both rows meanwhile. Throws Error if a run fails; then row `from` is as it was.
  bool move(CacheRows& rows, size_t from, size_t to);
  // Gives row `to`, which has no request, the request of row `from`, of which nothing is in the cache yet, and `from` the text of `to`.
  // Returns false, and does nothing, without room. Throws Error if a run fails; then nothing has changed.
  bool exchange(CacheRows& rows, size_t from, size_t to);

 private:
  int64_t bytes_of(int64_t positions) const { return pages_->row_bytes(positions); }
  int64_t bytes_of_busy(const std::vector<Row>& rows, int64_t positions) const;

  Session& session_;
  std::optional<CachePages> pages_;
  int64_t bytes_ = 0;
  std::vector<int64_t> positions_;  // by row, those that have memory
};

// Returns the number of rows with a request.
size_t busy_rows(const std::vector<Row>& rows);
// Moves the texts of requests into the first `count` rows as far as these have room. A text that such a row keeps for later prompts goes
// to a row behind them that keeps none or an older one; texts of conversations stay. Throws Error if a run fails; then what the row keeps
// that was to be moved is not lost. Returns true if a text has another row now.
bool move_to_first_rows(CacheRows& rows, CacheBudget& budget, size_t count);

}  // namespace genesis::generation
