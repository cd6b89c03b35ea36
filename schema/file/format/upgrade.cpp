#include "schema/file/format/upgrade.h"

#include <algorithm>

#include "schema/version.h"

namespace genesis::file {
namespace {

struct Lack {
  int32_t version;
  size_t nodes;
  std::string first;  // a node that needs it
};

std::string describe(const std::string& op, const Lack& lack) {
  const OpDef* known = find_op(op);
  const std::string have = known ? fmt::format("here: version {}", known->info.version) : "not here";
  return fmt::format("\n  {} version {} ({}), {} node{}, first '{}'", op, lack.version, have, lack.nodes,
                     lack.nodes == 1 ? "" : "s", lack.first);
}

// Removes an attribute and returns its value, or `where_absent` if there was none.
AttrValue take(Attributes& attributes, std::string_view name, AttrValue where_absent) {
  AttrValue taken = std::move(where_absent);
  Attributes rest;
  for (const auto& [key, value] : attributes)
    if (key == name)
      taken = value;
    else
      rest.set(key, value);
  attributes = std::move(rest);
  return taken;
}

// Version 1 had the inputs parameter, gradient, m, v, lr, step, [scale]. A weight_decay that is not a real number is passed on;
// reading the op then rejects it.
void upgrade_adam_update(NodeRecord& node) {
  const AttrValue decay = take(node.attributes, "weight_decay", 0.0);
  const double* real = std::get_if<double>(&decay);
  node.attributes.set("weight_decays", real ? AttrValue(std::vector{*real}) : decay);
  node.attributes.set("has_scale", node.inputs.size() > 6);
  if (node.inputs.size() > 4) std::rotate(node.inputs.begin(), node.inputs.begin() + 4, node.inputs.end());
}

void upgrade_adam_update_halves(NodeRecord& node) {
  node.attributes.set("parameters_per_half", take(node.attributes, "parts", std::vector<int64_t>()));
}

void upgrade_cached_attention(NodeRecord& node) {
  node.attributes.set("rotates", take(node.attributes, "turns", false));
}

bool take_bool(Attributes& attributes, std::string_view name) {
  const AttrValue value = take(attributes, name, false);
  const bool* held = std::get_if<bool>(&value);
  return held && *held;
}

// Sets the number of weights. The older ops listed the weights after x, or after x and the norm's weight, and with `has_bias` as
// many biases after them.
void set_weights(NodeRecord& node, size_t first) {
  const size_t count = node.inputs.size() < first ? 0 : node.inputs.size() - first;
  node.attributes.set("weights",
                      static_cast<int64_t>(take_bool(node.attributes, "has_bias") ? count / 2 : count));
}

void set_epilogue(NodeRecord& node, const char* epilogue) {
  node.attributes.set("epilogue", std::string(epilogue));
}

void upgrade_norm_linear(NodeRecord& node) {
  set_weights(node, 2);
  node.attributes.set("prologue", std::string("rms_norm"));
  if (take_bool(node.attributes, "swiglu")) set_epilogue(node, "swiglu");
}

void upgrade_linear_swiglu(NodeRecord& node) {
  node.attributes.set("weights", int64_t{2});
  set_epilogue(node, "swiglu");
}

void upgrade_linear_weight_grad(NodeRecord& node) {
  node.attributes.set("transpose_a", true);
  set_epilogue(node, "bias_grad");
}

// linear and matmul replace ops that passes used to create. adam_update 2 replaces three ops: the updates of one parameter, of
// many, and of many stored in halves. sample_logits was named random_sample, which was easily confused with multinomial.
constexpr OpUpgrade kUpgrades[] = {
    {"adam_update", 1, "adam_update", 2, upgrade_adam_update},
    {"adam_update_group", 1, "adam_update", 2, [](NodeRecord&) {}},
    {"adam_update_halves", 1, "adam_update", 2, upgrade_adam_update_halves},
    {"cached_attention", 1, "cached_attention", 2, upgrade_cached_attention},
    {"linear_swiglu", 1, "linear", 1, upgrade_linear_swiglu},
    {"linear_weight_grad", 1, "matmul", 1, upgrade_linear_weight_grad},
    {"linear_with_swiglu", 1, "linear", 1, [](NodeRecord& node) { set_epilogue(node, "with_swiglu"); }},
    {"matmul_swiglu_grad", 1, "matmul", 1, [](NodeRecord& node) { set_epilogue(node, "swiglu_grad"); }},
    {"merged_linear", 1, "linear", 1, [](NodeRecord& node) { set_weights(node, 1); }},
    {"norm_linear", 1, "linear", 1, upgrade_norm_linear},
    {"random_sample", 1, "sample_logits", 1, [](NodeRecord&) {}},
};

}  // namespace

std::span<const OpUpgrade> op_upgrades() { return kUpgrades; }

void upgrade_node(NodeRecord& node, std::span<const OpUpgrade> upgrades) {
  for (size_t steps = 0; steps <= upgrades.size(); ++steps) {
    const auto at = std::ranges::find_if(upgrades, [&](const OpUpgrade& row) {
      return row.op == node.op && row.from_version == node.op_version;
    });
    if (at == upgrades.end()) return;
    at->apply(node);
    node.op = at->to_op;
    node.op_version = at->to_version;
  }
}

void check_ops_known(const ModelRecord& record) {
  std::map<std::pair<std::string, int32_t>, Lack> lacking;
  for (const EntryRecord& entry : record.entries) {
    for (const NodeRecord& node : entry.nodes) {
      const OpDef* op = find_op(node.op);
      if (op != nullptr && op->info.version == node.op_version) continue;
      auto [at, fresh] = lacking.try_emplace({node.op, node.op_version}, Lack{node.op_version, 0, node.name});
      ++at->second.nodes;
    }
  }
  if (lacking.empty()) return;
  constexpr size_t kMaxListed = 100;
  std::string list;
  size_t listed = 0;
  for (const auto& [key, lack] : lacking)
    if (listed++ < kMaxListed) list += describe(key.first, lack);
  if (listed > kMaxListed) list += fmt::format("\n  and {} more", listed - kMaxListed);
  fail(
      "the file was written by '{}' and uses ops that this one ({}) does not have; use a newer Genesis, or "
      "load the plugin that an op is from (--plugin):{}",
      record.producer, kProducer, list);
}

void upgrade(ModelRecord& record) {
  for (EntryRecord& entry : record.entries)
    for (NodeRecord& node : entry.nodes) upgrade_node(node, op_upgrades());
  check_ops_known(record);
}

}  // namespace genesis::file
