#include "schema/file/upgrade.h"

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

}  // namespace

std::span<const OpUpgrade> op_upgrades() {
  // {"softmax", 1, "softmax", 2, [](NodeRecord& node) { ... }},  // what changed and why
  return {};
}

void upgrade_node(NodeRecord& node, std::span<const OpUpgrade> upgrades) {
  for (size_t steps = 0; steps <= upgrades.size(); ++steps) {
    const auto at = std::find_if(upgrades.begin(), upgrades.end(), [&](const OpUpgrade& row) {
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
  fail("the file was written by '{}' and uses ops that this one ({}) does not have; use a newer Genesis:{}",
       record.producer, kProducer, list);
}

void upgrade(ModelRecord& record) {
  for (EntryRecord& entry : record.entries)
    for (NodeRecord& node : entry.nodes) upgrade_node(node, op_upgrades());
  check_ops_known(record);
}

}  // namespace genesis::file
