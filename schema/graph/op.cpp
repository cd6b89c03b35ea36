#include "schema/graph/op.h"

#include <map>
#include <mutex>

#include "schema/core/type_limits.h"
#include "schema/graph/plugin_ops.h"

namespace genesis {

// Declares one function per file in schema/ops, named after the file: the build's list of op files is the list of ops.
#define GENESIS_OP_FILE(file) std::span<const OpDef* const> file##_ops();
#include "schema/op_files.inc"
#undef GENESIS_OP_FILE

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> table = [] {
    std::vector<const OpDef*> ops;
    const auto append = [&](std::span<const OpDef* const> more) {
      ops.insert(ops.end(), more.begin(), more.end());
    };
#define GENESIS_OP_FILE(file) append(file##_ops());
#include "schema/op_files.inc"
#undef GENESIS_OP_FILE
    return ops;
  }();
  return table;
}

namespace {

const std::map<std::string_view, const OpDef*>& library_ops() {
  static const std::map<std::string_view, const OpDef*> by_name = [] {
    std::map<std::string_view, const OpDef*> map;
    for (const OpDef* op : all_ops()) GENESIS_ASSERT(map.emplace(op->name(), op).second);
    return map;
  }();
  return by_name;
}

struct PluginOps {
  std::mutex mutex;
  std::map<std::string_view, const OpDef*> by_name;
};

PluginOps& plugin_ops() {
  static PluginOps ops;
  return ops;
}

const OpDef* find_plugin_op(std::string_view name) {
  PluginOps& known = plugin_ops();
  const std::lock_guard lock(known.mutex);
  const auto at = known.by_name.find(name);
  return at == known.by_name.end() ? nullptr : at->second;
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

bool is_plugin_op(const OpDef& op) { return !library_ops().contains(op.name()); }

const OpDef* find_op(std::string_view name) {
  const auto at = library_ops().find(name);
  return at == library_ops().end() ? find_plugin_op(name) : at->second;
}

std::vector<InPlace> in_place_pairs(const OpDef& op, const Attributes& attributes, Types inputs,
                                    Types outputs) {
  std::vector<InPlace> allowed(op.info.in_place.begin(), op.info.in_place.end());
  if (op.in_place) allowed = op.in_place(attributes, inputs, outputs);
  std::erase_if(allowed, [&](const InPlace& pair) {
    if (pair.input >= static_cast<int>(inputs.size()) || pair.output >= static_cast<int>(outputs.size()))
      return true;
    const TensorType& in = inputs[static_cast<size_t>(pair.input)];
    const TensorType& out = outputs[static_cast<size_t>(pair.output)];
    return size_of(in.dtype) != size_of(out.dtype) || !(in.shape.numel() == out.shape.numel());
  });
  return allowed;
}

std::vector<TensorType> infer_types(const OpDef& op, const Attributes& attributes, Types inputs) {
  const auto count = static_cast<int>(inputs.size());
  const auto [min, max] = op.info.inputs;
  if (count < min || count > max) {
    if (min == max) fail("op '{}' takes {} inputs, {} were given", op.name(), min, count);
    if (max >= kVariadic) fail("op '{}' takes at least {} inputs, {} were given", op.name(), min, count);
    fail("op '{}' takes {} to {} inputs, {} were given", op.name(), min, max, count);
  }
  std::vector<TensorType> types = op.infer(attributes, inputs);
  for (const TensorType& type : types)
    with_context([&] { check_type(type); }, [&] { return "in the result " + type.to_string(); });
  return types;
}

Cost cost_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs) {
  return op.cost ? op.cost(attributes, inputs, outputs) : Cost{.bytes = bytes_moved(inputs, outputs)};
}

double sum_length_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs) {
  return op.sum_length ? op.sum_length(attributes, inputs, outputs) : 1;
}

}  // namespace genesis
