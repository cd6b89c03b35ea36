// A paged KV cache: gives the rows of a session's cache the memory that their texts need, and no more.
//
// The addresses of the cache hold `positions` tokens in each row, and the page table between them and memory is the processor's own.
// So kernels read a paged cache exactly as any other one: the same bits at the same speed, for every kind of cache and dtype
// (vAttention, ASPLOS 2025, compares this with block tables inside the kernels).
//
// On the CPU the pages are the operating system's: one takes memory from the first write to it, and gives it back when its row
// needs fewer positions. On a GPU all pages are taken at the start, and rows map those that they need
// (executor/runtime/mapped_rows.h). A page is 2 MB of one state and one row there: 1024 tokens of keys with 8 heads of 128 in bf16.
// A state whose row is no whole number of pages has memory for all positions.
//
// executor/generation/cache_budget.h decides which text gets how many positions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/session.h"

namespace genesis {

class MappedRows;
class PageMapper;

// Returns the bytes of a page on a device of this name (SessionOptions::device); 0: it has no pages.
int64_t cache_page_bytes(const std::string& device);
// Returns true if a device maps pages of this size, which are larger than those of the operating system.
bool are_mapped_pages(int64_t page_bytes);

// Returns the memory that the first `positions` positions of a row of `capacity` positions take at most: each state rounds up to
// pages and, where pages are not mapped, may begin inside of one. A state without positions takes its whole row.
int64_t paged_row_bytes(const Model& model, int64_t positions, int64_t capacity, int64_t page_bytes);
// Returns `positions`, or up to twice as many, with which a row of the model's largest states is a whole number of mapped pages.
// Returns `positions` if there is no such number: CachePages logs then that rows are not paged.
int64_t whole_page_positions(const Model& model, int64_t positions, int64_t page_bytes);

// Caches of sessions on the CPU get mapped pages from now on (null: the operating system's again). For tests.
void map_pages_of_cpu_by(std::shared_ptr<PageMapper> mapper);

class CachePages {
 public:
  enum class Use { kPages, kCopiesOnly };
  // Gives the memory of all rows back: the caches are zero. With kCopiesOnly the caches stay as they are, and only copy(), save() and
  // load() may be called. `session` must outlive this object. After it, caches with mapped pages are zero again; with the pages of
  // the operating system they keep their memory and what it holds. `bytes`: the memory of all rows, which pages that are mapped take
  // at once; 0: as rows need them. Throws Error if the device has no pages or too little memory, if the session has several ranks,
  // or while a run is under way.
  explicit CachePages(Session& session, Use use = Use::kPages, int64_t bytes = 0);
  // Returns true if rows of the session's cache can be copied (kCopiesOnly).
  static bool can_copy(const Session& session);
  ~CachePages();
  CachePages(const CachePages&) = delete;
  CachePages& operator=(const CachePages&) = delete;

  // Returns the memory that the first `positions` positions of a row take at most.
  int64_t row_bytes(int64_t positions) const {
    return paged_row_bytes(session_.model(), positions, capacity_, page_bytes_);
  }
  // Gives a row memory for its first `positions` positions. The memory behind them is given back: on the CPU they are zero, on a GPU
  // they hold anything.
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
    int32_t state = -1;
    std::byte* data = nullptr;
    int64_t row_bytes = 0, position_bytes = 0;  // position_bytes 0: the state has no positions
    std::byte* row(int64_t index) const { return data + index * row_bytes; }
  };

  void add_rows(int32_t state);
  void find_rows();
  void take_pages();
  void map_pages(int64_t bytes);
  void log_without_pages() const;
  bool is_mapped(const Rows& rows) const {
    return rows.position_bytes > 0 && rows.row_bytes % page_bytes_ == 0;
  }

  Session& session_;
  const std::shared_ptr<PageMapper> mapper_;  // null: the pages are the operating system's
  const int64_t page_bytes_;
  int64_t count_ = 0, capacity_ = 0;  // rows, and the positions of each
  std::vector<Rows> states_;
  std::shared_ptr<MappedRows> mapped_;
};

}  // namespace genesis
