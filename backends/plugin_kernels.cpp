#include "backends/plugin_kernels.h"

#include <map>
#include <mutex>

#include "backends/implementation_list.h"

namespace genesis {
namespace {

struct PluginKernels {
  std::mutex mutex;
  std::map<std::string, std::vector<KernelImpl>, std::less<>> added, joined;
};

PluginKernels& plugin_kernels() {
  static PluginKernels kernels;
  return kernels;
}

// False as long as no plugin has kernels, which is asked for every node of every plan.
std::atomic<bool>& has_any() {
  static std::atomic<bool> any{false};
  return any;
}

}  // namespace

void add_plugin_kernels(std::span<const OpKernel> kernels) {
  PluginKernels& known = plugin_kernels();
  const std::lock_guard lock(known.mutex);
  for (const OpKernel& row : kernels) known.added[std::string(row.op)].push_back(row.implementation);
  known.joined.clear();
  if (!kernels.empty()) has_any() = true;
}

std::span<const KernelImpl> with_plugin_kernels(std::string_view op, std::span<const KernelImpl> own) {
  if (!has_any()) return own;
  PluginKernels& known = plugin_kernels();
  const std::lock_guard lock(known.mutex);
  const auto added = known.added.find(op);
  if (added == known.added.end()) return own;
  auto [at, is_new] = known.joined.try_emplace(std::string(op), added->second);
  if (is_new) at->second.insert(at->second.end(), own.begin(), own.end());
  return at->second;
}

std::vector<std::string> plugin_kernel_names() {
  PluginKernels& known = plugin_kernels();
  const std::lock_guard lock(known.mutex);
  std::vector<std::string> names;
  for (const auto& [op, implementations] : known.added)
    for (const KernelImpl& implementation : implementations)
      names.push_back(name_of_implementation(op, implementation.name));
  return names;
}

}  // namespace genesis
