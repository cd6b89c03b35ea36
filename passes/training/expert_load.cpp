#include "passes/training/expert_load.h"

#include <algorithm>
#include <vector>

#include "passes/core/match.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// Returns the offsets of experts' rows (GroupedMatmul), by layer.
std::vector<ValueId> offsets_of_layers(const Graph& graph) {
  std::vector<ValueId> layers;
  for (const Node& node : graph.nodes())
    if (is<ops::GroupedMatmul>(node) && std::ranges::find(layers, node.inputs.back()) == layers.end())
      layers.push_back(node.inputs.back());
  return layers;
}

Value shares_of(Value offsets) {
  const int64_t experts = offsets.dim(0).value() - 1;
  const Value counts = slice(offsets, 0, 1) - slice(offsets, 0, 0, experts);
  // A batch without tokens has a share of 0 everywhere.
  return cast(counts, DType::f32) / maximum(cast(slice(offsets, 0, experts), DType::f32), 1);
}

}  // namespace

void add_expert_load(Model& model, const std::string& entry) {
  Graph graph = copy_graph(std::as_const(model).entry(entry), model);
  if (std::ranges::any_of(graph.outputs(), [](const NamedValue& o) { return o.name == kExpertLoad; })) return;
  const std::vector<ValueId> layers = offsets_of_layers(graph);
  if (layers.empty()) fail("entry point '{}' has no experts whose load could be counted", entry);
  std::vector<Value> shares;
  for (const ValueId offsets : layers) {
    shares.push_back(shares_of(graph.handle(offsets)));
    if (!(shares.back().shape() == shares[0].shape()))
      fail("entry point '{}' has layers with {} and with {} experts, whose loads do not fit one table", entry,
           shares[0].dim(0).value(), shares.back().dim(0).value());
  }
  graph.add_output(kExpertLoad, stack(shares));
  model.replace_entry(std::move(graph));
}

}  // namespace genesis::passes
