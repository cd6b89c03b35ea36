// Pages of a device's memory that are given to addresses and taken from them while kernels keep their pointers: the part of a
// device that executor/runtime/mapped_rows.h needs. backends/cuda/runtime/gpu_pages.cpp implements it by the driver's virtual memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace genesis {

class PageMapper {
 public:
  using Page = uint64_t;  // memory of page_bytes() bytes, which may be mapped at several addresses
  virtual ~PageMapper() = default;

  virtual int64_t page_bytes() const = 0;
  // Throws Error if the device has too little memory. A page holds anything.
  virtual Page make_page() = 0;
  virtual void free_page(Page page) = 0;  // it is mapped nowhere
  // Returns addresses without memory, a multiple of pages. Throws Error.
  virtual std::byte* reserve(int64_t bytes) = 0;
  virtual void release(std::byte* at, int64_t bytes) = 0;  // no page is mapped there
  // Maps the pages one after the other from `at` on, where nothing is mapped. Throws Error, and has mapped none of them then.
  virtual void map(std::byte* at, std::span<const Page> pages) = 0;
  virtual void unmap(std::byte* at, int64_t pages) = 0;
  // These happen in the order of the device's runs.
  virtual void clear(std::byte* at, int64_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // Returns when the runs and copies so far have ended.
  virtual void wait() = 0;
};

// Returns the bytes of a page that a device of this name maps; 0: it maps none, as the CPU, whose system gives pages by itself.
int64_t mapped_page_bytes(const std::string& device);
// Returns what maps pages between the runs of a stream of that device (Device::stream()); null: it maps none.
std::shared_ptr<PageMapper> open_page_mapper(const std::string& device, void* stream);

// Defined beside the device.
std::shared_ptr<PageMapper> open_cuda_page_mapper(int index, void* stream);

}  // namespace genesis
