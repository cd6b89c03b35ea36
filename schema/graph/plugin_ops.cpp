#include "schema/graph/plugin_ops.h"

#include <map>
#include <mutex>

#include "schema/core/error.h"

namespace genesis {
namespace {

struct PluginOps {
  std::mutex mutex;
  std::map<std::string_view, const OpDef*> by_name;
};

PluginOps& plugin_ops() {
  static PluginOps ops;
  return ops;
}

}  // namespace

void add_plugin_ops(std::span<const OpDef* const> ops) {
  for (const OpDef* op : ops)
    if (find_op(op->name()))
      fail("the op '{}' is there already: give the plugin's op another name", op->name());
  PluginOps& known = plugin_ops();
  const std::lock_guard lock(known.mutex);
  for (const OpDef* op : ops) known.by_name.emplace(op->name(), op);
}

const OpDef* find_plugin_op(std::string_view name) {
  PluginOps& known = plugin_ops();
  const std::lock_guard lock(known.mutex);
  const auto at = known.by_name.find(name);
  return at == known.by_name.end() ? nullptr : at->second;
}

}  // namespace genesis
