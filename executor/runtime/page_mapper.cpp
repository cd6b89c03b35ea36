#include "executor/runtime/page_mapper.h"

#include "schema/core/parse_number.h"

namespace genesis {
namespace {

constexpr std::string_view kCuda = "cuda";

bool is_cuda(const std::string& device) { return device.substr(0, device.find(':')) == kCuda; }

}  // namespace

int64_t mapped_page_bytes(const std::string& device) { return is_cuda(device) ? int64_t{2} << 20 : 0; }

std::shared_ptr<PageMapper> open_page_mapper(const std::string& device, void* stream) {
  if (!is_cuda(device)) return nullptr;
  const int index = device == kCuda ? 0 : parse_number<int>(device.substr(kCuda.size() + 1)).value_or(0);
  return open_cuda_page_mapper(index, stream);
}

}  // namespace genesis
