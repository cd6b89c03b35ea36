#include "passes/core/cache_size.h"

#include <algorithm>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "schema/graph/caches.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

Dim product(const Shape& shape, int first, int end) {
  Dim all = 1;
  for (int axis = first; axis < end; ++axis) all = all * shape[axis];
  return all;
}

// Writes the shape of a reshape for an input whose sizes have changed. Input and output are cut into the shortest groups of axes
// that have the same number of elements; each group is changed by itself. An axis of the input may hold rows or positions among other
// axes, as [rows * positions * heads] does, which an earlier reshape has made: then the output's axes of these sizes are changed.
class ReshapedShape {
 public:
  struct Sizes {
    CacheSize old, now;
  };
  ReshapedShape(const Sizes& sizes, const Shape& old_in, const Shape& new_in, const Shape& old_out)
      : sizes_(sizes), old_in_(old_in), new_in_(new_in), old_out_(old_out), new_out_(old_out) {}

  Shape get() {
    int in = 0, out = 0;
    while (in < old_in_.rank() && out < old_out_.rank()) {
      const auto [in_end, out_end] = end_of_group(in, out);
      change_group(in, in_end, out, out_end);
      in = in_end, out = out_end;
    }
    // Axes of size 1 are left: what they have become belongs to the last axis.
    if (in < old_in_.rank() && out > 0)
      new_out_[out - 1] = new_out_[out - 1] * product(new_in_, in, old_in_.rank());
    if (!(new_in_.numel() == new_out_.numel())) fail_shape();
    return new_out_;
  }

 private:
  std::pair<int, int> end_of_group(int in, int out) const {
    for (int axes = 2; axes <= old_in_.rank() - in + old_out_.rank() - out; ++axes)
      for (int of_in = 1; of_in < axes; ++of_in) {
        const int in_end = in + of_in, out_end = out + axes - of_in;
        if (in_end > old_in_.rank() || out_end > old_out_.rank()) continue;
        if (product(old_in_, in, in_end) == product(old_out_, out, out_end)) return {in_end, out_end};
      }
    return {old_in_.rank(), old_out_.rank()};
  }

  void change_group(int in, int in_end, int out, int out_end) {
    if (out_end - out == 1) {
      new_out_[out] = product(new_in_, in, in_end);
      return;
    }
    for (int axis = in; axis < in_end; ++axis) {
      if (old_in_[axis] == new_in_[axis]) continue;
      int to = out;
      while (to < out_end && !(new_out_[to] == old_in_[axis])) ++to;
      if (to == out_end) return change_merged(product(new_in_, in, in_end), out, out_end);
      new_out_[to] = new_in_[axis];
      out = to + 1;
    }
  }

  // Finds rows, and positions behind them, or both in one axis, among the axes of an output that has `numel` elements now.
  void change_merged(const Dim& numel, int out, int out_end) {
    using Change = std::pair<int64_t, int64_t>;
    const Change rows{sizes_.old.rows, sizes_.now.rows},
        positions{sizes_.old.positions, sizes_.now.positions},
        both{rows.first * positions.first, rows.second * positions.second};
    for (const auto& changes :
         {std::vector{rows, positions}, std::vector{positions}, std::vector{rows}, std::vector{both}}) {
      Shape changed = new_out_;
      int to = out;
      for (const auto& [old, now] : changes) {
        while (to < out_end && !(old_out_[to] == Dim(old))) ++to;
        if (to < out_end) changed[to++] = now;
      }
      if (!(product(changed, out, out_end) == numel)) continue;
      new_out_ = changed;
      return;
    }
    fail_shape();
  }

  [[noreturn]] void fail_shape() const {
    fail("a reshape from {} to {} does not say where {} goes", old_in_.to_string(), old_out_.to_string(),
         new_in_.to_string());
  }

  const Sizes& sizes_;
  const Shape &old_in_, &new_in_, &old_out_;
  Shape new_out_;
};

// Returns the shape of an expand, aligned right. An axis that the expand repeats cannot get another size.
Shape expanded_shape(const Shape& old_in, const Shape& new_in, const Shape& old_out) {
  Shape shape = old_out;
  const int before = old_out.rank() - old_in.rank();
  for (int axis = 0; axis < old_in.rank(); ++axis) {
    if (old_in[axis] == new_in[axis]) continue;
    if (!(old_out[before + axis] == old_in[axis]))
      fail("an expand repeats axis {} of {}, which is now {}", axis, old_in.to_string(), new_in.to_string());
    shape[before + axis] = new_in[axis];
  }
  return shape;
}

// Returns true if the node reads or writes rows of a cache one by one: a slice along the axis of rows.
bool slices_rows(const Node& node, int rows_axis) {
  if (const auto slice = match<ops::DynamicSlice>(node)) return slice->axis == rows_axis;
  if (const auto update = match<ops::DynamicUpdateSlice>(node)) return update->axis == rows_axis;
  return false;
}

// Returns true if the entry point uses all rows of a cache together.
bool uses_all_rows(const Graph& graph) {
  const Model& model = graph.model();
  for (const Node& node : graph.nodes())
    for (const ValueId id : node.inputs) {
      const ValueInfo& value = graph.value(id);
      if (value.kind != ValueKind::kState) continue;
      const auto layout = cache_layout(model.state(value.index));
      if (layout && !slices_rows(node, layout->rows_axis)) return true;
    }
  return false;
}

bool reads_cache(const Graph& graph) {
  return std::ranges::any_of(graph.values(), [&](const ValueInfo& value) {
    return value.kind == ValueKind::kState && cache_layout(graph.model().state(value.index));
  });
}

// Writes an entry point for the cache of another model, which differs in the sizes of its states only.
class CacheResizer {
 public:
  CacheResizer(const Graph& old, Graph& graph, const ReshapedShape::Sizes& sizes)
      : old_(old), graph_(graph), sizes_(sizes), values_(old.values().size()) {
    const int64_t old_rows = sizes.old.rows, rows = sizes.now.rows;
    const bool takes_rows = rows != old_rows && uses_all_rows(old);
    for (const ValueId id : old.inputs()) {
      TensorType type = old.type(id);
      if (takes_rows && type.shape.rank() == 0 && old.value(id).name == "position")
        fail("it reads one text, because its input 'position' is a scalar: {} rows need i64[{}]", rows, rows);
      if (takes_rows && type.shape.rank() > 0 && type.shape[0] == Dim(old_rows)) type.shape[0] = rows;
      at(id) = graph.add_input(old.value(id).name, type);
    }
  }

  void run() {
    for (size_t i = 0; i < old_.values().size(); ++i) {
      const ValueInfo& info = old_.values()[i];
      if (info.kind == ValueKind::kState) values_[i] = graph_.state(info.index);
      if (info.kind == ValueKind::kConstant) values_[i] = graph_.constant(info.index);
      if (info.kind == ValueKind::kNode && info.index == 0) copy(old_.node(info.producer));
    }
    graph_.set_origins({});
    for (const NamedValue& output : old_.outputs()) graph_.add_output(output.name, at(output.value));
    for (const StateUpdate& update : old_.updates()) graph_.add_update(update.state, at(update.value));
  }

 private:
  Value& at(ValueId id) { return values_[static_cast<size_t>(id.index)]; }

  void copy(const Node& node) {
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(at(id));
    graph_.set_origins(node.origins);
    if (const auto concat = match<ops::Concat>(node)) expand_beside(node, concat->axis, inputs);
    const std::vector<Value> outputs = with_context(
        [&] { return graph_.add_node(*node.op, attributes_of(node, inputs), inputs, node.name); },
        [&] { return "in node '" + node.name + "'"; });
    for (size_t k = 0; k < outputs.size(); ++k) at(node.outputs[k]) = outputs[k];
  }

  // Expands what stands beside a value of the cache, as sinks do beside scores, to its new size. An expand for one row may be left out
  // where it changes nothing.
  void expand_beside(const Node& node, int64_t concat_axis, std::vector<Value>& inputs) {
    const auto is_resized = [&](size_t i) { return !(inputs[i].shape() == old_.type(node.inputs[i]).shape); };
    size_t resized = 0;
    while (resized < inputs.size() && !is_resized(resized)) ++resized;
    if (resized == inputs.size()) return;
    const Shape now = inputs[resized].shape();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (is_resized(i)) continue;
      Shape shape = now;
      const int axis = normalize_axis(concat_axis, shape.rank());
      shape[axis] = inputs[i].shape()[axis];
      const Node* made_by = producer(old_, node.inputs[i]);
      const Value source = made_by && is<ops::Expand>(*made_by) ? at(made_by->inputs[0]) : inputs[i];
      if (!(inputs[i].shape() == shape)) inputs[i] = emit(ops::Expand{shape}, {source});
    }
  }

  Attributes attributes_of(const Node& node, const std::vector<Value>& inputs) const {
    if (inputs.empty() || inputs[0].shape() == old_.type(node.inputs[0]).shape) return node.attributes;
    const Shape &before = old_.type(node.inputs[0]).shape, &now = inputs[0].shape();
    if (const auto reshape = match<ops::Reshape>(node))
      return to_attributes(ops::Reshape{ReshapedShape(sizes_, before, now, reshape->shape).get()});
    if (const auto expand = match<ops::Expand>(node))
      return to_attributes(ops::Expand{expanded_shape(before, now, expand->shape)});
    return node.attributes;
  }

  const Graph& old_;
  Graph& graph_;
  const ReshapedShape::Sizes sizes_;
  std::vector<Value> values_;  // by value of old_
};

CacheSize checked_size(const Model& model) {
  if (const auto size = cache_size(model)) return *size;
  fail(
      "the model declares no caches (schema/graph/cache_layout.h): it reads no text step by step, so that "
      "no cache can get another size");
}

}  // namespace

std::unique_ptr<Model> with_cache_size(const Model& model, const CacheSize& size) {
  const CacheSize old = checked_size(model);
  if (size.rows <= 0 || size.positions <= 0)
    fail("a KV cache of {} rows of {} positions: both must be positive", size.rows, size.positions);
  std::unique_ptr<Model> resized = Model::with_tables_of(model);
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i)
    if (cache_layout(model.state(i))) resized->set_shape(i, cache_type(model.state(i), size).shape);
  cache_bytes(model, size);  // throws if they exceed 64 bits
  for (const auto& entry : model.entries()) {
    if (!reads_cache(*entry)) {
      resized->replace_entry(copy_graph(*entry, *resized));
      continue;
    }
    with_context(
        [&] {
          CacheResizer(*entry, resized->add_entry(entry->name()), {old, size}).run();
        },
        [&] {
          return fmt::format("while entry point '{}' gets a cache of {} rows of {} positions", entry->name(),
                             size.rows, size.positions);
        });
  }
  return resized;
}

}  // namespace genesis::passes
