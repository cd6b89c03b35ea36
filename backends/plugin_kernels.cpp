#include "backends/plugin_kernels.h"

#include <map>
#include <mutex>

#include "backends/implementation_list.h"

namespace genesis {
namespace {

struct PluginKernels {
  std::mutex mutex;
  std::map<std::string, std::vector<KernelImpl>, std::less<>> added, joined;
  std::atomic<bool> has_any{false};  // asked for every node of every plan
};

PluginKernels& kernels_on(PluginDevice device) {
  static PluginKernels kernels[2];
  return kernels[static_cast<size_t>(device)];
}

}  // namespace

void add_plugin_kernels(PluginDevice device, std::span<const OpKernel> kernels) {
  PluginKernels& known = kernels_on(device);
  const std::lock_guard lock(known.mutex);
  for (const OpKernel& row : kernels) known.added[std::string(row.op)].push_back(row.implementation);
  known.joined.clear();
  if (!kernels.empty()) known.has_any = true;
}

std::span<const KernelImpl> with_plugin_kernels(PluginDevice device, std::string_view op,
                                                std::span<const KernelImpl> own) {
  PluginKernels& known = kernels_on(device);
  if (!known.has_any) return own;
  const std::lock_guard lock(known.mutex);
  const auto added = known.added.find(op);
  if (added == known.added.end()) return own;
  auto [at, is_new] = known.joined.try_emplace(std::string(op), added->second);
  if (is_new) at->second.insert(at->second.end(), own.begin(), own.end());
  return at->second;
}

std::vector<std::string> plugin_kernel_names(PluginDevice device) {
  PluginKernels& known = kernels_on(device);
  const std::lock_guard lock(known.mutex);
  std::vector<std::string> names;
  for (const auto& [op, implementations] : known.added)
    for (const KernelImpl& implementation : implementations)
      names.push_back(name_of_implementation(op, implementation.name));
  return names;
}

}  // namespace genesis
