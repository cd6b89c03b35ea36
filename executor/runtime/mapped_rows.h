// The memory of caches whose rows get pages of a device as their texts need them, and share a fixed number of pages.
//
// Every address of a row always has memory: where a row has no page of its own, all rows of a dtype see one common page. A step
// computes all rows, so that a row without a text, and a chunk of a prompt that writes its row as a whole, write there; what it
// holds are numbers of the same dtype, which no text reads.
//
// Pages that a row no longer needs stay with it until another one finds none free: rows of texts of about one length change no
// mapping.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "executor/runtime/page_mapper.h"
#include "schema/core/dtype.h"

namespace genesis {

class MappedRows {
 public:
  struct Cache {
    DType dtype = DType::f32;
    int64_t row_bytes = 0, position_bytes = 0;  // row_bytes: whole pages
  };
  // Takes `pages` pages for all caches at once, so that none can be missing later; 0: as they are needed. Throws Error if the device
  // has too little memory.
  MappedRows(std::shared_ptr<PageMapper> mapper, std::vector<Cache> caches, int64_t rows, int64_t pages);
  ~MappedRows();
  MappedRows(const MappedRows&) = delete;
  MappedRows& operator=(const MappedRows&) = delete;

  std::byte* at(size_t cache) const { return caches_[cache].at; }
  // Gives a row pages for its first `positions` positions; new ones are zero. Others lose what lies behind their positions when
  // no page is free. Throws Error if there are still too few pages, or one cannot be mapped: the row keeps its positions then.
  void set(int64_t row, int64_t positions);
  int64_t used_pages() const;  // rows need so many

 private:
  struct Placed {
    Cache cache;
    std::byte* at = nullptr;
    int64_t row_pages = 0;
    PageMapper::Page common = 0;
    std::vector<std::vector<PageMapper::Page>> own = {};  // by row: its first pages
    int64_t mapped_rows = 0;                              // rows whose addresses have memory
  };
  void place(Placed& placed);
  int64_t pages_of(const Placed& placed, int64_t positions) const;
  void map_instead(std::byte* at, std::span<const PageMapper::Page> now,
                   std::span<const PageMapper::Page> then);
  void shrink(int64_t row);
  void grow(Placed& placed, int64_t row, int64_t count);
  std::byte* page_at(const Placed& placed, int64_t row, int64_t page) const;
  int64_t missing(int64_t row, int64_t positions) const;
  void find_pages(int64_t row, int64_t count);
  void free_all();

  const std::shared_ptr<PageMapper> mapper_;
  const int64_t page_bytes_;
  std::map<DType, PageMapper::Page> common_;
  std::vector<Placed> caches_;
  std::vector<PageMapper::Page> free_;
  std::vector<int64_t> positions_;  // by row, those that it needs
  const bool is_limited_;
};

}  // namespace genesis
