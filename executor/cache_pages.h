// A paged KV cache: gives the rows of a session's cache the memory that their texts need, and no more.
//
// The addresses of the cache hold `positions` tokens in each row; the pages behind them are the operating system's. A page takes
// memory from the first write to it, and gives it back when its row needs fewer positions. The page table is the processor's own,
// so kernels read a paged cache exactly as any other one: the same bits at the same speed, for every kind of cache and dtype
// (vAttention, ASPLOS 2025, compares this with block tables inside the kernels).
//
// executor/generation/cache_budget.h decides which text gets how many positions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/session.h"

namespace genesis {

// Returns the memory that the first `positions` positions of a row take in a cache with pages of `page_bytes` bytes, at most:
// each state rounds up to pages and may begin inside of one. A state without positions takes its whole row.
int64_t paged_row_bytes(const Model& model, int64_t positions, int64_t page_bytes);

// Returns the bytes of a page on a device of this name (SessionOptions::device); 0: it has no pages.
int64_t cache_page_bytes(const std::string& device);

class CachePages {
 public:
  enum class Use { kPages, kCopiesOnly };
  // Gives the memory of all rows back: the caches are zero. With kCopiesOnly the caches stay as they are, and only copy(), save() and
  // load() may be called. `session` must outlive this object. Throws Error if the device has no pages, if the session has several
  // ranks, or while a run is under way.
  explicit CachePages(Session& session, Use use = Use::kPages);

  // Returns the memory that the first `positions` positions of a row take at most.
  int64_t row_bytes(int64_t positions) const {
    return paged_row_bytes(session_.model(), positions, page_bytes_);
  }
  // Lets a row keep its first `positions` positions. The memory behind them is given back, so that they are zero.
  void keep(int64_t row, int64_t positions);
  // Gives the row `to` the first `positions` positions of the row `from`, and all of its states without positions.
  void copy(int64_t from, int64_t to, int64_t positions);
  // Returns what the row holds of `count` positions from `first` on, saved_bytes() bytes; states without positions are left out.
  std::unique_ptr<std::byte[]> save(int64_t row, int64_t first, int64_t count) const;
  // Gives the row what save() has returned.
  void load(int64_t row, int64_t first, int64_t count, const std::byte* data);
  int64_t saved_bytes(int64_t count) const;

 private:
  // The cache of one state: rows one after the other.
  struct Rows {
    std::byte* data = nullptr;
    int64_t row_bytes = 0, position_bytes = 0;  // position_bytes 0: the state has no positions
    std::byte* row(int64_t index) const { return data + index * row_bytes; }
  };

  Session& session_;
  int64_t page_bytes_ = 0;
  std::vector<Rows> states_;
};

}  // namespace genesis
