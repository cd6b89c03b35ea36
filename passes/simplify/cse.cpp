#include "passes/simplify/passes.h"

#include <algorithm>
#include <map>

#include "passes/core/rewriter.h"
#include "schema/ops/collective/point_to_point.h"

namespace genesis::passes {
namespace {

// Returns a key; nodes with equal keys compute equal values.
std::string key_of(const Node& node, const std::vector<Value>& inputs) {
  std::vector<int32_t> ids;
  for (const Value& input : inputs) ids.push_back(input.id.index);
  if (node.op->info.commutative) std::sort(ids.begin(), ids.begin() + 2);
  std::string key = std::string(node.op->name()) + node.attributes.to_string();
  for (int32_t id : ids) key += "," + std::to_string(id);
  return key;
}

}  // namespace

Graph eliminate_common_subexpressions(const Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  std::map<std::string, std::vector<Value>> known;
  for (const Node& node : graph.nodes()) {
    if (has_peer(*node.op)) {  // each recv gets another tensor
      rewriter.copy(node);
      continue;
    }
    const auto [at, fresh] = known.try_emplace(key_of(node, rewriter.map(node.inputs)));
    if (fresh) {
      rewriter.copy(node);
      at->second = rewriter.map(node.outputs);
    } else {
      rewriter.replace(node, at->second);
    }
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
