#include "backends/cuda/runtime/gpu_pages.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backends/cuda/runtime/allocated.h"
#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/error.h"
#include "schema/messages/human_bytes.h"

namespace genesis::cuda {
namespace {

struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity =
      driver().function<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemCreate) create = driver().function<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver().function<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemAddressReserve) reserve =
      driver().function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = driver().function<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemMap) map = driver().function<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver().function<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = driver().function<decltype(&cuMemSetAccess)>("cuMemSetAccess");
};

const Driver& calls() {
  static const Driver functions;
  return functions;
}

CUmemAllocationProp kind_of(int device) {
  CUmemAllocationProp kind = {};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return kind;
}

void check_driver(CUresult result, const char* doing) {
  if (result != CUDA_SUCCESS)
    fail("CUDA failed while {}: the driver returned {}", doing, static_cast<int>(result));
}

CUdeviceptr number_of(const std::byte* at) { return reinterpret_cast<CUdeviceptr>(at); }

}  // namespace

GpuPages::GpuPages(int device) : device_(device) {
  check(cudaSetDevice(device), "choosing a device");
  const CUmemAllocationProp kind = kind_of(device);
  size_t bytes = 0;
  check_driver(calls().granularity(&bytes, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "asking for the size of pages");
  page_bytes_ = static_cast<int64_t>(bytes);
}

GpuPages::Page GpuPages::make() {
  const CUmemAllocationProp kind = kind_of(device_);
  CUmemGenericAllocationHandle page = 0;
  const CUresult result = calls().create(&page, static_cast<size_t>(page_bytes_), &kind, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    fail("cuda:{} has too little memory for pages of the cache, of {} each: {} are free", device_,
         human_bytes(static_cast<double>(page_bytes_)),
         human_bytes(static_cast<double>(free_memory_bytes())));
  check_driver(result, "taking a page of memory");
  count_allocation(device_, page_bytes_);
  return page;
}

void GpuPages::free(Page page) {
  calls().release(page);
  count_allocation(device_, -page_bytes_);
}

std::byte* GpuPages::reserve(int64_t bytes) {
  CUdeviceptr at = 0;
  check_driver(calls().reserve(&at, static_cast<size_t>(bytes), 0, 0, 0), "reserving addresses for a cache");
  return reinterpret_cast<std::byte*>(at);
}

void GpuPages::release(std::byte* at, int64_t bytes) {
  calls().free(number_of(at), static_cast<size_t>(bytes));
}

void GpuPages::map(std::byte* at, std::span<const Page> pages) {
  const auto size = static_cast<size_t>(page_bytes_);
  size_t mapped = 0;
  try {
    for (; mapped < pages.size(); ++mapped)
      check_driver(calls().map(number_of(at) + mapped * size, size, 0, pages[mapped], 0),
                   "mapping a page of a cache");
    CUmemAccessDesc access = {};
    access.location = kind_of(device_).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check_driver(calls().set_access(number_of(at), pages.size() * size, &access, 1),
                 "opening pages of a cache");
  } catch (const Error&) {
    unmap(at, static_cast<int64_t>(mapped));
    throw;
  }
}

// A mapping can only be taken back as a whole.
void GpuPages::unmap(std::byte* at, int64_t pages) {
  for (int64_t i = 0; i < pages; ++i)
    calls().unmap(number_of(at) + static_cast<size_t>(i * page_bytes_), static_cast<size_t>(page_bytes_));
}

}  // namespace genesis::cuda
