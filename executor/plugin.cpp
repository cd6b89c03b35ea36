#include "executor/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>

#include "backends/plugin_kernels.h"
#include "schema/build_id.h"
#include "schema/core/error.h"
#include "schema/graph/plugin_ops.h"

namespace genesis {
namespace {

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

// Returns what the library at `path` brings. It is never closed: graphs refer to its ops.
const Plugin& opened(void* library, const std::string& path) {
  const auto build = symbol<const char* (*)()>(library, "genesis_plugin_build");
  const auto plugin = symbol<const Plugin* (*)()>(library, "genesis_plugin");
  if (!build || !plugin)
    fail("'{}' is no plugin of Genesis: it lacks the line GENESIS_PLUGIN(ops, kernels) (docs/plugins.md)",
         path);
  if (std::string_view(build()) != kBuildId)
    fail(
        "the plugin '{}' was made for the build {} of Genesis, and this is the build {}: compile it again "
        "with the headers "
        "of this one",
        path, build(), kBuildId);
  return *plugin();
}

}  // namespace

void load_plugin(const std::string& path) {
  static std::mutex mutex;
  static std::set<void*> known;
  const std::lock_guard lock(mutex);
  // A name without a slash would be searched in the system's folders.
  const std::string file = std::filesystem::absolute(path).string();
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail("the plugin '{}' cannot be opened: {}", path, ::dlerror());
  if (known.contains(library)) return;
  const Plugin& plugin = opened(library, path);
  with_context([&] { add_plugin_ops(plugin.ops); }, [&] { return "in the plugin '" + path + "'"; });
  add_plugin_kernels(PluginDevice::kCpu, plugin.kernels);
  add_plugin_kernels(PluginDevice::kCuda, plugin.cuda_kernels);
  known.insert(library);
}

void load_plugins(const std::string& paths) {
  std::istringstream in(paths);
  for (std::string path; std::getline(in, path, ':');)
    if (!path.empty()) load_plugin(path);
}

}  // namespace genesis
