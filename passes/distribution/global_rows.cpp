#include "passes/distribution/global_rows.h"

#include <algorithm>

#include "passes/core/match.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::passes {
namespace {

// Returns the dimension that has grown; -1 if none has.
int grown_dimension(const Shape& own, const Shape& all) {
  for (int dim = 0; dim < own.rank(); ++dim)
    if (!(own[dim] == all[dim])) return dim;
  return -1;
}

// Returns the dimension of `to` that grows if dimension `dim` of `from` does: the one with as many elements before it. Dimensions of
// one element allow several answers: then one that is followed by the same dimension as before, else a longer one.
int grown_by_reshape(const Shape& from, int dim, const Shape& to) {
  int64_t outer = 1, before = 1;
  for (int d = 0; d < dim; ++d) outer *= from[d].value();
  const auto is_followed_alike = [&](int at) {
    return from[dim] == Dim(1) && at + 1 < to.rank() && dim + 1 < from.rank() && to[at + 1] == from[dim + 1];
  };
  for (int at = 0; at < to.rank(); before *= to[at++].value())
    if (before == outer && (!(to[at] == Dim(1)) || is_followed_alike(at))) return at;
  return -1;
}

}  // namespace

GlobalRows::GlobalRows(const Graph& graph, Rewriter& rewriter, int64_t ranks)
    : graph_(graph), rewriter_(rewriter), ranks_(ranks), varies_(graph.values().size()) {
  for (const ValueId id : graph.inputs()) varies_[static_cast<size_t>(id.index)] = true;
  for (const Node& node : graph.nodes()) {
    const bool does =
        node.op->info.random || std::ranges::any_of(node.inputs, [&](ValueId id) { return varies(id); });
    for (const ValueId output : node.outputs) varies_[static_cast<size_t>(output.index)] = does;
  }
}

bool GlobalRows::is_float_value(ValueId id) const { return is_float(graph_.type(id).dtype); }
int64_t GlobalRows::numel(ValueId id) const { return graph_.type(id).numel(); }

// Numbers of experts and places of pairs are sorted again, since the order of all ranks' pairs is another one. Rows are copied
// after they were gathered. Products that make more numbers than they read, such as the gradient of each pair, are repeated, too.
bool GlobalRows::is_repeated(ValueId id) const {
  const Node* node = producer(graph_, id);
  if (!node) return false;
  const auto is_of_repeated = [&](ValueId input) { return is_repeated(input); };
  if (!is_float_value(id))
    return std::ranges::none_of(node->inputs, [&](ValueId input) { return is_float_value(input); });
  if (is<ops::Embedding, ops::IndexSelect, ops::EmbeddingGrad>(*node)) return true;
  if (is<ops::Reshape>(*node) || node->op->info.elementwise)
    return std::ranges::any_of(node->inputs, is_of_repeated);
  int64_t read = 0;
  for (const ValueId input : node->inputs) read += numel(input);
  return is<ops::Matmul>(*node) && numel(id) > read;
}

Value GlobalRows::reshaped(const Node& node, Value x) const {
  const Shape& from = graph_.type(node.inputs[0]).shape;
  Shape to = graph_.type(node.outputs[0]).shape;
  if (const int grown = grown_dimension(from, x.shape()); grown >= 0) {
    const int at = grown_by_reshape(from, grown, to);
    if (at < 0)
      fail("node '{}': it mixes tokens with other axes, and ranks along 'expert' exchange tokens", node.name);
    to[at] = Dim(to[at].value() * ranks_);
  }
  return reshape(x, to);
}

Value GlobalRows::repeated(const Node& node, size_t output) {
  std::vector<Value> operands;
  for (const ValueId input : node.inputs) operands.push_back(of(input));
  if (is<ops::Reshape>(node)) return reshaped(node, operands[0]);
  Attributes attributes = node.attributes;
  if (auto rows = match<ops::EmbeddingGrad>(node)) {
    rows.attributes.rows[0] = Dim(rows->rows[0].value() * ranks_);
    attributes = to_attributes(rows.attributes);
  }
  return emit_node(*node.op, attributes, operands)[output];
}

Value GlobalRows::of(ValueId id) {
  if (ranks_ == 1 || !varies(id) || graph_.type(id).shape.rank() == 0) return rewriter_.map(id);
  if (const auto found = made_.find(id); found != made_.end()) return found->second;
  const Value all = is_repeated(id)
                        ? repeated(*producer(graph_, id), static_cast<size_t>(graph_.value(id).index))
                        : all_gather(rewriter_.map(id), kExpertAxis, ranks_);
  return made_[id] = all;
}

}  // namespace genesis::passes
