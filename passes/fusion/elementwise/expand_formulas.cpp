#include "passes/fusion/elementwise/expand_formulas.h"

#include <algorithm>
#include <map>

#include "passes/core/formula.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/elementwise/fusion_groups.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<Value> write(Rewriter& rewriter, const Node& node, FormulaParts& parts) {
  const NameScope scope(rewriter.graph(), last_part(node.name));
  return write_formula(*node.op, node.attributes, rewriter.map(node.inputs), parts);
}

bool are_known(const std::vector<TensorType>& types) {
  return std::ranges::all_of(types, [](const TensorType& type) { return type.shape.is_constant(); });
}

// Returns whether only its formula can compute the node.
bool needs_formula(const Graph& graph, const Node& node, const Target& target) {
  const std::vector<TensorType> inputs = graph.input_types(node), outputs = graph.output_types(node);
  return are_known(inputs) && are_known(outputs) &&
         !target.runs(target.query(*node.op, node.attributes, inputs, outputs));
}

// Nodes of a graph, by number.
struct NodeRange {
  size_t begin, end;
};

// Returns whether all nodes of a formula that compute something belong to one region, with others.
bool joins_others(const Graph& graph, const FusionGroups& groups, NodeRange formula) {
  const FusionGroup* region = nullptr;
  size_t count = 0;
  for (size_t i = formula.begin; i < formula.end; ++i) {
    if (is<ops::Expand, ops::Full, ops::Reshape>(graph.nodes()[i])) continue;
    const FusionGroup& group = groups.of({static_cast<int32_t>(i)});
    if (!group.fusable || (region && region != &group)) return false;
    region = &group;
    ++count;
  }
  return region && region->members.size() > count;
}

// Returns the names of the nodes whose formulas fuse with what is around them.
std::set<std::string> fusing_nodes(const Graph& graph) {
  FormulaParts parts;
  Rewriter rewriter(graph);
  std::map<std::string, NodeRange> formulas;
  for (const Node& node : graph.nodes()) {
    if (!node.op->formula) {
      rewriter.copy(node);
      continue;
    }
    const size_t begin = rewriter.graph().nodes().size();
    rewriter.replace(node, write(rewriter, node, parts));
    formulas[node.name] = {begin, rewriter.graph().nodes().size()};
  }
  const Graph written = rewriter.finish();
  const FusionGroups groups(written);
  std::set<std::string> names;
  for (const auto& [name, formula] : formulas)
    if (joins_others(written, groups, formula)) names.insert(name);
  return names;
}

}  // namespace

bool has_formulas(const Graph& graph, const PassContext&) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.op->formula != nullptr; });
}

// A formula may contain ops that have only formulas themselves.
Graph write_formulas(const Graph& graph, const std::function<bool(const Graph&, const Node&)>& chosen) {
  FormulaParts parts;
  const auto replace = [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (!node.op->formula || !chosen(rewriter.old(), node)) return std::nullopt;
    return write(rewriter, node, parts);
  };
  const auto has_chosen = [&](const Graph& current) {
    return std::ranges::any_of(current.nodes(),
                               [&](const Node& node) { return node.op->formula && chosen(current, node); });
  };
  Graph written = rewrite(graph, replace);
  while (has_chosen(written)) written = rewrite(written, replace);
  return written;
}

Graph expand_formulas(const Graph& graph, const PassContext& context) {
  const Target* target = context.target;
  return write_formulas(graph, [&](const Graph& current, const Node& node) {
    return target && needs_formula(current, node, *target);
  });
}

Graph fuse_formulas(const Graph& graph, const PassContext&) {
  const std::set<std::string> names = fusing_nodes(graph);
  FormulaParts parts;
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (!names.contains(node.name)) return std::nullopt;
    return write(rewriter, node, parts);
  });
}

}  // namespace genesis::passes
