// Pages of a GPU's memory, mapped by the driver's virtual memory (executor/runtime/page_mapper.h says what they are for). A kernel or
// a captured graph that has been given an address reads the page that is mapped there when it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace genesis::cuda {

class GpuPages {
 public:
  using Page = uint64_t;
  explicit GpuPages(int device);

  int64_t page_bytes() const { return page_bytes_; }
  // The following throw Error.
  Page make();
  std::byte* reserve(int64_t bytes);
  void map(std::byte* at, std::span<const Page> pages);
  // The following cannot fail for what the functions above have returned.
  void free(Page page);
  void release(std::byte* at, int64_t bytes);
  void unmap(std::byte* at, int64_t pages);

 private:
  int device_;
  int64_t page_bytes_ = 0;
};

}  // namespace genesis::cuda
