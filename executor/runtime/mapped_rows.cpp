#include "executor/runtime/mapped_rows.h"

#include <algorithm>

#include "schema/core/error.h"

namespace genesis {

MappedRows::MappedRows(std::shared_ptr<PageMapper> mapper, std::vector<Cache> caches, int64_t rows,
                       int64_t pages)
    : mapper_(std::move(mapper)),
      page_bytes_(mapper_->page_bytes()),
      positions_(static_cast<size_t>(rows), 0),
      is_limited_(pages > 0) {
  for (const Cache& cache : caches)
    caches_.push_back({.cache = cache,
                       .row_pages = cache.row_bytes / page_bytes_,
                       .own = std::vector<std::vector<PageMapper::Page>>(static_cast<size_t>(rows))});
  try {
    for (int64_t i = 0; i < pages; ++i) free_.push_back(mapper_->make_page());
    for (Placed& placed : caches_) place(placed);
    mapper_->wait();
  } catch (const Error&) {
    free_all();
    throw;
  }
}

MappedRows::~MappedRows() { free_all(); }

void MappedRows::place(Placed& placed) {
  auto common = common_.find(placed.cache.dtype);
  const bool is_new = common == common_.end();
  if (is_new) common = common_.emplace(placed.cache.dtype, mapper_->make_page()).first;
  placed.common = common->second;
  placed.at = mapper_->reserve(std::ssize(positions_) * placed.cache.row_bytes);
  const std::vector<PageMapper::Page> row(static_cast<size_t>(placed.row_pages), placed.common);
  for (; placed.mapped_rows < std::ssize(positions_); ++placed.mapped_rows)
    mapper_->map(page_at(placed, placed.mapped_rows, 0), row);
  if (is_new) mapper_->clear(placed.at, page_bytes_);
}

std::byte* MappedRows::page_at(const Placed& placed, int64_t row, int64_t page) const {
  return placed.at + row * placed.cache.row_bytes + page * page_bytes_;
}

int64_t MappedRows::pages_of(const Placed& placed, int64_t positions) const {
  const int64_t bytes = positions * placed.cache.position_bytes;
  return std::min((bytes + page_bytes_ - 1) / page_bytes_, placed.row_pages);
}

int64_t MappedRows::used_pages() const {
  int64_t pages = 0;
  for (const Placed& placed : caches_)
    for (const int64_t positions : positions_) pages += pages_of(placed, positions);
  return pages;
}

// Maps pages where as many others are. If that fails, the others are there again, so that every address has memory.
void MappedRows::map_instead(std::byte* at, std::span<const PageMapper::Page> now,
                             std::span<const PageMapper::Page> then) {
  mapper_->unmap(at, std::ssize(now));
  try {
    mapper_->map(at, then);
  } catch (const Error&) {
    mapper_->map(at, now);
    throw;
  }
}

// Takes the pages that a row has beyond its positions.
void MappedRows::shrink(int64_t row) {
  for (Placed& placed : caches_) {
    std::vector<PageMapper::Page>& own = placed.own[static_cast<size_t>(row)];
    const int64_t kept = pages_of(placed, positions_[static_cast<size_t>(row)]),
                  count = std::ssize(own) - kept;
    if (count <= 0) continue;
    const std::vector<PageMapper::Page> common(static_cast<size_t>(count), placed.common);
    map_instead(page_at(placed, row, kept), std::span(own).last(common.size()), common);
    free_.insert(free_.end(), own.begin() + kept, own.end());
    own.resize(static_cast<size_t>(kept));
  }
}

int64_t MappedRows::missing(int64_t row, int64_t positions) const {
  int64_t pages = 0;
  for (const Placed& placed : caches_)
    pages +=
        std::max<int64_t>(pages_of(placed, positions) - std::ssize(placed.own[static_cast<size_t>(row)]), 0);
  return pages;
}

void MappedRows::find_pages(int64_t row, int64_t count) {
  for (int64_t other = 0; other < std::ssize(positions_) && std::ssize(free_) < count; ++other)
    if (other != row) shrink(other);
  while (!is_limited_ && std::ssize(free_) < count) free_.push_back(mapper_->make_page());
  if (std::ssize(free_) < count)
    fail("a row of the cache needs {} more pages, and {} are free: fewer or shorter texts need less", count,
         free_.size());
}

void MappedRows::grow(Placed& placed, int64_t row, int64_t count) {
  std::vector<PageMapper::Page>& own = placed.own[static_cast<size_t>(row)];
  const int64_t first = std::ssize(own), more = count - first;
  if (more <= 0) return;
  std::byte* at = page_at(placed, row, first);
  const std::vector<PageMapper::Page> common(static_cast<size_t>(more), placed.common);
  const auto taken = std::span(free_).last(common.size());
  map_instead(at, common, taken);
  own.insert(own.end(), taken.begin(), taken.end());
  free_.resize(free_.size() - static_cast<size_t>(more));
  mapper_->clear(at, more * page_bytes_);
}

void MappedRows::set(int64_t row, int64_t positions) {
  if (const int64_t count = missing(row, positions); count > 0) {
    mapper_->wait();
    find_pages(row, count);
    for (Placed& placed : caches_) grow(placed, row, pages_of(placed, positions));
  }
  positions_[static_cast<size_t>(row)] = positions;
}

void MappedRows::free_all() {
  for (Placed& placed : caches_) {
    if (!placed.at) continue;
    mapper_->unmap(placed.at, placed.mapped_rows * placed.row_pages);
    mapper_->release(placed.at, std::ssize(positions_) * placed.cache.row_bytes);
    for (const auto& own : placed.own) free_.insert(free_.end(), own.begin(), own.end());
  }
  for (const PageMapper::Page page : free_) mapper_->free_page(page);
  for (const auto& [dtype, page] : common_) mapper_->free_page(page);
}

}  // namespace genesis
