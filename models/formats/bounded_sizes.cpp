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
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/loop.h"
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

// Returns the value that counts these rows of a node: those that it finds, or that a loop collects.
std::optional<ValueId> count_of(const Node& node, ValueId rows) {
  const auto place = std::ranges::find(node.outputs, rows) - node.outputs.begin();
  if (is<ops::Nms, ops::Nonzero>(*node.op)) return node.outputs[1];
  if (!is<ops::Loop>(*node.op)) return std::nullopt;
  const auto loop = from_attributes<ops::Loop>(node.attributes);
  const bool is_collected = place >= loop.carried && place < loop.carried + loop.collected;
  return is_collected ? std::optional(node.outputs.back()) : std::nullopt;
}

// The slices that with_symbol() made, by their symbols.
Bounds bounds_of(const Graph& graph) {
  Bounds bounds;
  for (const Node& node : graph.nodes()) {
    if (!is<ops::Slice>(*node.op)) continue;
    const ValueInfo& rows = graph.value(node.inputs[0]);
    if (rows.kind != ValueKind::kNode) continue;
    const auto count = count_of(graph.node(rows.producer), node.inputs[0]);
    const std::string symbol = bounded_symbol(from_attributes<ops::Slice>(node.attributes).length[0]);
    if (count && !symbol.empty()) bounds[symbol] = {rows.type.shape[0], *count};
  }
  return bounds;
}

// Returns how many times a count the size is; 0 if it is no multiple of one.
int64_t factor_of(const Dim& size) {
  const std::string symbol = bounded_symbol(size);
  if (symbol.empty()) return 0;
  const Dim factor = size.substitute({{symbol, 1}});
  const bool is_multiple = factor.is_constant() && factor.value() > 0;
  return is_multiple && size == Dim::symbol(symbol) * factor ? factor.value() : 0;
}

// Returns how many of `size` are meant: a multiple of one count.
Value meant_of(const Dim& size, Value count, DType dtype) {
  const int64_t factor = factor_of(size);
  if (factor == 0)
    throw NeedsCount(
        fmt::format("the size {} is no multiple of a count that depends on data", size.to_string()));
  return cast(factor == 1 ? count : count * factor, dtype);
}

// Returns true if the rows behind the length stay behind the rows that are meant: both shapes have one axis of such a size, and the same
// sizes before it.
bool keeps_rows_apart(const Shape& from, const Shape& to) {
  if (std::ranges::count_if(from, is_bounded) > 1 || std::ranges::count_if(to, is_bounded) > 1) return false;
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
  if (is<ops::Softmax>(*node.op)) return is_other(from_attributes<ops::Softmax>(node.attributes).axis);
  if (is<ops::Linear>(*node.op)) return is_other(-1);
  if (is<ops::Matmul>(*node.op))
    return is_other(-1) && !from_attributes<ops::Matmul>(node.attributes).transpose_a;
  return false;
}

// Rows behind the length would be in the place of those that are meant if a slice began at such a number, or padding had such a size.
bool has_only_bounded_lengths(const Node& node) {
  if (is<ops::Slice>(*node.op)) return !has_bounded(from_attributes<ops::Slice>(node.attributes).start);
  if (is<ops::Reshape, ops::Expand, ops::Full, ops::Arange>(*node.op)) return true;
  return std::ranges::none_of(node.attributes, [](const auto& attribute) {
    const auto* shape = std::get_if<Shape>(&attribute.second);
    return shape && has_bounded(*shape);
  });
}

void check(const Graph& graph, const Node& node) {
  if (!has_only_bounded_lengths(node))
    throw NeedsCount(
        fmt::format("the node '{}' ({}) has an attribute that depends on data: expected a known number",
                    node.authored_name(), node.op->name()));
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

// Replaces the sizes that nodes compute with by the counts. Those that are no multiple of a count stay; check() refuses them where they
// are needed.
Graph with_counts(const Graph& old, const Bounds& bounds) {
  passes::Rewriter rewriter(old);
  for (const Node& node : old.nodes()) {
    const Dim size =
        is<ops::DimValue>(*node.op) ? from_attributes<ops::DimValue>(node.attributes).dim[0] : Dim(0);
    if (factor_of(size) == 0) {
      rewriter.copy(node);
      continue;
    }
    const Value count = rewriter.map(bounds.at(bounded_symbol(size)).count);
    rewriter.replace(node, {meant_of(size, count, old.type(node.outputs[0]).dtype)});
  }
  return rewriter.finish();
}

void add_lengths(Model& model, Graph& graph, const Bounds& bounds) {
  const std::vector<NamedValue> outputs = graph.outputs();
  for (const NamedValue& output : outputs) {
    const Shape& shape = graph.type(output.value).shape;
    const auto axis = std::ranges::find_if(shape, is_bounded);
    if (axis == shape.end()) continue;
    if (std::ranges::count_if(shape, is_bounded) > 1)
      throw NeedsCount(fmt::format("the output '{}' is {}: expected at most one size that depends on data",
                                   output.name, graph.type(output.value).to_string()));
    const Value count{&graph, bounds.at(bounded_symbol(*axis)).count};
    const auto place = axis - shape.begin();
    graph.add_output(length_name(output.name), meant_of(*axis, count, DType::i64));
    model.metadata[length_axis_key(output.name)] = std::to_string(place);
  }
}

// Throws Error if the graph has a size of which no bound is known.
Bindings largest_sizes(const Graph& graph, const Bounds& bounds) {
  Bindings sizes;
  for (const std::string& symbol : passes::symbols_of(graph)) {
    const auto found = bounds.find(symbol);
    if (found == bounds.end()) continue;
    const Dim& most = found->second.most;
    if (!most.is_constant())
      fail(
          "at most {} results of NonMaxSuppression, NonZero, Compress or a Loop: give the open sizes values, "
          "such as --set batch=1",
          most.to_string());
    sizes[symbol] = most.value();
  }
  return sizes;
}

// A node that does not work with the bounds may work with the sizes that there are; sizes that are open are to be given first.
Graph with_sizes(const Graph& graph, const Bindings& sizes) {
  try {
    Graph bound = passes::bind(graph, sizes);
    for (const std::string& symbol : passes::symbols_of(bound))
      if (symbol.starts_with(kPrefix)) fail("the size {} depends on data: expected a bound of it", symbol);
    return bound;
  } catch (const Error& problem) {
    const auto is_open = [&](const std::string& symbol) { return !sizes.contains(symbol); };
    if (std::ranges::any_of(passes::symbols_of(graph), is_open)) throw;
    throw NeedsCount(problem.what());
  }
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

Value with_symbol(const BoundedRows& found) { return with_symbol(std::vector{found.rows})[0]; }

std::vector<Value> with_symbol(const std::vector<Value>& rows) {
  std::vector<Value> results;
  const size_t number = rows.at(0).graph->values().size();
  for (const Value& one : rows)
    results.push_back(narrow(one, 0, 0, Dim::symbol(std::string(kPrefix) + std::to_string(number))));
  return results;
}

void settle_bounded_sizes(Model& model, const std::string& entry) {
  Graph& whole = model.entry(entry);
  const Bounds bounds = bounds_of(whole);
  if (bounds.empty()) return;
  // The slices that name the symbols may be dead: a graph that computes with a count alone needs no rows.
  const Bindings sizes = largest_sizes(passes::without_dead_nodes(whole), bounds);
  add_lengths(model, whole, bounds);
  const Graph graph = passes::without_dead_nodes(with_counts(whole, bounds));
  for (const Node& node : graph.nodes()) check(graph, node);
  model.replace_entry(with_sizes(graph, sizes));
}

}  // namespace genesis::models
