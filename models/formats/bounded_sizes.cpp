#include "models/formats/bounded_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "passes/core/bind.h"
#include "passes/core/rewriter.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::models {
namespace {

constexpr std::string_view kPrefix = "_found";

bool is_bounded(const Dim& size) { return !bounded_symbol(size).empty(); }
bool has_bounded(const Shape& shape) { return std::ranges::any_of(shape, is_bounded); }

struct Bound {
  Dim most;
  ValueId count;
};
using Bounds = std::map<std::string, Bound>;

// The slices that with_symbol() made, by their symbols.
Bounds bounds_of(const Graph& graph) {
  Bounds bounds;
  for (const Node& node : graph.nodes()) {
    if (!is<ops::Slice>(*node.op)) continue;
    const ValueInfo& rows = graph.value(node.inputs[0]);
    if (rows.kind != ValueKind::kNode) continue;
    const Node& finder = graph.node(rows.producer);
    const std::string symbol = bounded_symbol(from_attributes<ops::Slice>(node.attributes).length[0]);
    if (is<ops::Nms, ops::Nonzero>(*finder.op) && !symbol.empty())
      bounds[symbol] = {graph.type(finder.outputs[0]).shape[0], finder.outputs[1]};
  }
  return bounds;
}

// Returns how many of `size` are meant: a multiple of one count.
Value meant_of(const Dim& size, Value count, DType dtype) {
  const Dim symbol = Dim::symbol(bounded_symbol(size));
  const int64_t factor = size.substitute({{bounded_symbol(size), 1}}).is_constant()
                             ? size.substitute({{bounded_symbol(size), 1}}).value()
                             : 0;
  if (factor < 1 || !(size == symbol * factor))
    throw NeedsCount(
        fmt::format("the size {} is no multiple of a count that depends on data", size.to_string()));
  return cast(factor == 1 ? count : count * factor, dtype);
}

// Returns true if the rows behind the length stay behind the rows that are meant: both shapes have the same sizes before the first axis of
// such a size.
bool keeps_rows_apart(const Shape& from, const Shape& to) {
  for (int axis = 0; axis < std::min(from.rank(), to.rank()); ++axis) {
    if (is_bounded(from[axis]) || is_bounded(to[axis])) return is_bounded(from[axis]) && is_bounded(to[axis]);
    if (!(from[axis] == to[axis])) return false;
  }
  return false;
}

bool works_along_others(const Graph& graph, const Node& node, const Shape& x) {
  const auto is_other = [&](int64_t axis) { return !is_bounded(x[normalize_axis(axis, x.rank())]); };
  if (node.op->info.elementwise ||
      is<ops::Permute, ops::Expand, ops::IndexSelect, ops::Gather, ops::OneHot>(*node.op))
    return true;
  if (is<ops::Reshape>(*node.op)) return keeps_rows_apart(x, graph.type(node.outputs[0]).shape);
  if (is<ops::Slice>(*node.op)) return is_other(from_attributes<ops::Slice>(node.attributes).axis);
  if (is<ops::Split>(*node.op)) return is_other(from_attributes<ops::Split>(node.attributes).axis);
  if (is<ops::Concat>(*node.op)) return is_other(from_attributes<ops::Concat>(node.attributes).axis);
  if (is<ops::Sum, ops::Mean, ops::Prod, ops::Max, ops::Min, ops::Any, ops::All>(*node.op)) {
    const auto axes = normalize_axes(from_attributes<ops::Sum>(node.attributes).axes, x.rank());
    return std::ranges::all_of(axes, is_other);
  }
  if (is<ops::Linear>(*node.op)) return is_other(-1);
  if (is<ops::Matmul>(*node.op))
    return is_other(-1) && !from_attributes<ops::Matmul>(node.attributes).transpose_a;
  return false;
}

void check(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Shape& shape = graph.type(node.inputs[i]).shape;
    if (!has_bounded(shape)) continue;
    const bool is_product = is<ops::Linear, ops::Matmul>(*node.op);
    if ((is_product && i > 0) || !works_along_others(graph, node, shape))
      throw NeedsCount(fmt::format(
          "the node '{}' ({}) reads {}, a size of which depends on data, in a way that needs to know it",
          node.authored_name(), node.op->name(), graph.type(node.inputs[i]).to_string()));
  }
}

Graph with_counts(const Graph& old, const Bounds& bounds) {
  passes::Rewriter rewriter(old);
  for (const Node& node : old.nodes()) {
    check(old, node);
    const Dim size =
        is<ops::DimValue>(*node.op) ? from_attributes<ops::DimValue>(node.attributes).dim[0] : Dim(0);
    if (!is_bounded(size)) {
      rewriter.copy(node);
      continue;
    }
    const Value count = rewriter.map(bounds.at(bounded_symbol(size)).count);
    rewriter.replace(node, {meant_of(size, count, old.type(node.outputs[0]).dtype)});
  }
  return rewriter.finish();
}

}  // namespace

std::string length_name(const std::string& name) { return name + ".length"; }
std::string length_axis_key(const std::string& name) { return "bounded." + name; }

std::string bounded_symbol(const Dim& size) {
  std::vector<std::string> names;
  size.collect_symbols(names);
  for (const std::string& name : names)
    if (name.starts_with(kPrefix)) return name;
  return "";
}

Value with_symbol(const BoundedRows& found) {
  const Graph& graph = *found.rows.graph;
  return narrow(found.rows, 0, 0, Dim::symbol(std::string(kPrefix) + std::to_string(graph.values().size())));
}

void settle_bounded_sizes(Model& model, const std::string& entry) {
  Graph graph = passes::without_dead_nodes(model.entry(entry));
  const Bounds bounds = bounds_of(graph);
  if (bounds.empty()) return;
  Bindings sizes;
  for (const auto& [symbol, bound] : bounds) {
    if (!bound.most.is_constant())
      fail(
          "at most {} results of NonMaxSuppression, NonZero or Compress: give the open sizes values, such as "
          "--set batch=1",
          bound.most.to_string());
    sizes[symbol] = bound.most.value();
  }
  const std::vector<NamedValue> outputs = graph.outputs();
  for (const NamedValue& output : outputs) {
    const Shape& shape = graph.type(output.value).shape;
    const auto axis = std::ranges::find_if(shape, is_bounded);
    if (axis == shape.end()) continue;
    const Value count{&graph, bounds.at(bounded_symbol(*axis)).count};
    graph.add_output(length_name(output.name), meant_of(*axis, count, DType::i64));
    model.metadata[length_axis_key(output.name)] = std::to_string(axis - shape.begin());
  }
  model.replace_entry(passes::bind(with_counts(graph, bounds), sizes));
}

}  // namespace genesis::models
