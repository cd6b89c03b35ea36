#include "executor/runtime/device.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "backends/cpu/kernels.h"
#include "schema/core/error.h"
#include "schema/core/parse_number.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

constexpr const char* kAuto = "auto";
constexpr DeviceKind kDevices[] = {
    {.name = "cpu",
     .takes_threads = true,
     .open = [](int, int threads) { return open_cpu_device(threads); },
     .target = [](int) { return cpu::cpu_target(); }},
    {.name = "cuda",
     .is_numbered = true,
     .open = [](int index, int) { return open_cuda_device(index); },
     .target = cuda_target,
     .joining_implementations = cuda_joining_implementations,
     .choose_joined = choose_cuda_joined},
};

// Returns "cpu, cuda or cuda:N".
std::string known_names() {
  std::vector<std::string> names;
  for (const DeviceKind& kind : kDevices) {
    names.emplace_back(kind.name);
    if (kind.is_numbered) names.push_back(std::string(kind.name) + ":N");
  }
  std::string text = names[0];
  for (size_t i = 1; i < names.size(); ++i) text += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

struct NamedDevice {
  const DeviceKind* kind;
  int index;
};

NamedDevice parse_device(const std::string& name) {
  const DeviceKind* kind = find_device_kind(name);
  if (kind && name == kind->name) return {kind, 0};
  if (kind && kind->is_numbered)
    if (const auto index = parse_number<int>(name.substr(kind->name.size() + 1)); index && *index >= 0)
      return {kind, *index};
  fail("no device '{}': expected {}, or auto for a GPU where one can be used", name, known_names());
}

}  // namespace

const DeviceKind* find_device_kind(std::string_view name) {
  const auto* at = std::ranges::find_if(
      kDevices, [&](const DeviceKind& kind) { return kind.name == name.substr(0, name.find(':')); });
  return at == std::end(kDevices) ? nullptr : at;
}

std::vector<std::string_view> all_joining_implementations() {
  std::vector<std::string_view> all;
  for (const DeviceKind& kind : kDevices)
    if (kind.joining_implementations)
      std::ranges::copy(kind.joining_implementations(), std::back_inserter(all));
  return all;
}

Tensor read_tensor(Device& device, const TensorType& type, const std::byte* data) {
  std::byte* host;
  Tensor tensor = Tensor::uninitialized(type, &host);
  device.download(host, data, type.bytes());
  return tensor;
}

// Opens devices, since only this finds every reason why one cannot be used: no driver, no device, or one that is too old.
std::string resolve_device(const std::string& name) {
  if (name != kAuto) {
    parse_device(name);
    return name;
  }
  for (const DeviceKind& kind : kDevices) {
    if (kind.name == "cpu") continue;
    try {
      kind.open(0, 0);
      return std::string(kind.name);
    } catch (const Error& error) {
      log_debug("device 'auto' is no {}: {}", kind.name, error.message());
    }
  }
  return "cpu";
}

std::shared_ptr<Device> open_device(const std::string& name, int threads) {
  const auto [kind, index] = parse_device(resolve_device(name));
  return kind->open(index, threads);
}

Target target_of(const std::string& name) {
  const auto [kind, index] = parse_device(resolve_device(name));
  return kind->target(index);
}

}  // namespace genesis
