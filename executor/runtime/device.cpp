#include "executor/runtime/device.h"

#include <spdlog/spdlog.h>

#include <charconv>

#include "backends/cpu/kernels.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

// To open it is the one question that finds every reason why a GPU cannot be used: no driver, none there, too old.
bool has_usable_gpu() {
  try {
    return open_cuda_device(0) != nullptr;
  } catch (const Error& error) {
    spdlog::debug("device 'auto' is the CPU: {}", error.message());
    return false;
  }
}

// -1 for the CPU, else the number of the GPU.
int parse_device(const std::string& name) {
  if (name == "cpu") return -1;
  if (name == "cuda") return 0;
  if (name == "auto") return has_usable_gpu() ? 0 : -1;
  int index = -1;
  if (name.starts_with("cuda:")) {
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + 5, end, index);
    if (error == std::errc() && stop == end && index >= 0) return index;
  }
  fail("no device '{}': expected cpu, cuda or cuda:N, or auto for a GPU where one can be used", name);
}

}  // namespace

Tensor read_tensor(Device& device, const TensorType& type, const std::byte* data) {
  std::byte* host;
  Tensor tensor = Tensor::uninitialized(type, &host);
  device.download(host, data, type.bytes());
  return tensor;
}

std::string resolve_device(const std::string& name) {
  const int index = parse_device(name);
  if (name != "auto") return name;
  return index < 0 ? "cpu" : "cuda";
}

std::shared_ptr<Device> open_device(const std::string& name, int threads) {
  const int index = parse_device(name);
  return index < 0 ? open_cpu_device(threads) : open_cuda_device(index);
}

Target target_of(const std::string& name) {
  const int index = parse_device(name);
  return index < 0 ? cpu::cpu_target() : cuda_target(index);
}

}  // namespace genesis
