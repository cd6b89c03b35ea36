#include "models/formats/onnx/known_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "executor/session.h"
#include "schema/core/error.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/loop.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kMaxElements = 4096;     // the largest tensor whose elements are followed one by one
constexpr int kDeepest = 1000;             // nodes behind one another that are followed
constexpr int64_t kMaxComputed = 1 << 22;  // the largest value that is computed ahead, in elements

std::optional<std::vector<int64_t>> known_shape(Value value) {
  if (!value.shape().is_constant()) return std::nullopt;
  auto sizes = value.shape().sizes();
  int64_t count = 1;
  for (const int64_t size : sizes)
    count *= std::min(size, kMaxElements + 1), count = std::min(count, kMaxElements + 1);
  if (count > kMaxElements) return std::nullopt;
  return sizes;
}

std::optional<KnownSizes> whole_numbers(const Tensor& tensor) {
  KnownSizes known{tensor.shape().sizes(), {}};
  if (tensor.numel() > kMaxElements) return std::nullopt;
  if (tensor.dtype() == DType::i64) {
    for (const int64_t element : tensor.as<int64_t>()) known.elements.emplace_back(element);
    return known;
  }
  for (const double element : tensor.to_doubles()) {
    if (element != std::floor(element) || std::abs(element) > 1e15) return std::nullopt;
    known.elements.emplace_back(static_cast<int64_t>(element));
  }
  return known;
}

// A polynomial without a minus is never negative.
bool is_never_negative(const Dim& dim) { return dim.to_string().find('-') == std::string::npos; }

std::optional<Dim> floor_quotient(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    const int64_t x = a.value(), y = b.value();
    if (y == 0) return std::nullopt;
    return Dim(x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0));
  }
  if (const auto exact = a.divide_exact(b)) return exact;
  return b.is_constant() && b.value() > 0 ? std::optional(Dim::floor_div(a, b.value())) : std::nullopt;
}
std::optional<Dim> remainder_of(const Dim& a, const Dim& b) {
  const auto quotient = floor_quotient(a, b);
  return quotient ? std::optional(a - *quotient * b) : std::nullopt;
}
// Sizes are at least zero; a comparison that depends on a symbol is not known.
std::optional<Dim> is_less(const Dim& a, const Dim& b) {
  const Dim distance = b - a;
  if (distance.is_constant()) return Dim(distance.value() > 0);
  if (is_never_negative(a - b)) return Dim(0);
  return is_never_negative(distance - 1) ? std::optional(Dim(1)) : std::nullopt;
}
std::optional<Dim> is_equal(const Dim& a, const Dim& b) {
  const Dim distance = a - b;
  if (distance.is_constant()) return Dim(distance.value() == 0);
  const bool differ = is_never_negative(distance - 1) || is_never_negative(Dim(0) - distance - 1);
  return differ ? std::optional(Dim(0)) : std::nullopt;
}
std::optional<Dim> inverse(std::optional<Dim> truth) {
  return truth ? std::optional(Dim(1) - *truth) : std::nullopt;
}

using Binary = std::optional<Dim> (*)(const Dim&, const Dim&);

Binary find_binary(std::string_view op) {
  static const std::map<std::string_view, Binary> kOps = {
      {"add", [](const Dim& a, const Dim& b) { return std::optional(a + b); }},
      {"sub", [](const Dim& a, const Dim& b) { return std::optional(a - b); }},
      {"mul", [](const Dim& a, const Dim& b) { return std::optional(a * b); }},
      {"div", [](const Dim& a, const Dim& b) { return a.divide_exact(b); }},
      {"floordiv", floor_quotient},
      {"remainder", remainder_of},
      {"eq", is_equal},
      {"ne", [](const Dim& a, const Dim& b) { return inverse(is_equal(a, b)); }},
      {"lt", is_less},
      {"gt", [](const Dim& a, const Dim& b) { return is_less(b, a); }},
      {"le", [](const Dim& a, const Dim& b) { return inverse(is_less(b, a)); }},
      {"ge", [](const Dim& a, const Dim& b) { return inverse(is_less(a, b)); }},
      {"maximum", [](const Dim& a, const Dim& b) { return std::optional(Dim::max(a, b)); }},
      {"minimum", [](const Dim& a, const Dim& b) { return std::optional(Dim::min(a, b)); }},
  };
  const auto found = kOps.find(op);
  return found == kOps.end() ? nullptr : found->second;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

// Returns which element of an operand of `shape` broadcasts to element `at` of a result of `to`.
size_t source_of(int64_t at, const std::vector<int64_t>& to, const std::vector<int64_t>& shape) {
  int64_t source = 0, stride = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t axis = to.size() - 1 - i;
    const int64_t place = at % to[axis];
    at /= to[axis];
    if (i >= shape.size()) continue;
    const int64_t size = shape[shape.size() - 1 - i];
    if (size != 1) source += place * stride;
    stride *= size;
  }
  return static_cast<size_t>(source);
}

std::optional<KnownSizes> broadcast_each(
    const std::vector<int64_t>& shape, const std::vector<KnownSizes>& operands,
    const std::function<std::optional<Dim>(const std::vector<Dim>&)>& compute) {
  KnownSizes result{shape, {}};
  for (int64_t at = 0; at < count_of(shape); ++at) {
    std::vector<Dim> elements;
    for (const KnownSizes& operand : operands)
      elements.push_back(operand.elements[source_of(at, shape, operand.shape)]);
    const auto element = compute(elements);
    if (!element) return std::nullopt;
    result.elements.push_back(*element);
  }
  return result;
}

// The number of elements before and behind an axis.
struct Around {
  int64_t before = 1, behind = 1;
};
Around around(const std::vector<int64_t>& shape, size_t axis) {
  Around result;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != axis) (i < axis ? result.before : result.behind) *= shape[i];
  return result;
}

KnownSizes taken_along(const KnownSizes& x, size_t axis, const std::vector<int64_t>& places) {
  KnownSizes result{x.shape, {}};
  result.shape[axis] = static_cast<int64_t>(places.size());
  const Around outer = around(x.shape, axis);
  for (const int64_t place : places)
    if (place < 0 || place >= x.shape[axis]) fail("it takes the element {} of {}", place, x.shape[axis]);
  for (int64_t i = 0; i < outer.before; ++i)
    for (const int64_t place : places)
      for (int64_t j = 0; j < outer.behind; ++j)
        result.elements.push_back(
            x.elements.at(static_cast<size_t>((i * x.shape[axis] + place) * outer.behind + j)));
  return result;
}

KnownSizes joined_along(const std::vector<KnownSizes>& xs, size_t axis) {
  KnownSizes result{xs[0].shape, {}};
  result.shape[axis] = 0;
  for (const KnownSizes& x : xs) result.shape[axis] += x.shape[axis];
  const Around outer = around(xs[0].shape, axis);
  for (int64_t i = 0; i < outer.before; ++i)
    for (const KnownSizes& x : xs) {
      const int64_t length = x.shape[axis] * outer.behind;
      const auto first = x.elements.begin() + i * length;
      result.elements.insert(result.elements.end(), first, first + length);
    }
  return result;
}

std::optional<std::vector<int64_t>> places_of(const KnownSizes& index, int64_t size) {
  std::vector<int64_t> places;
  for (const Dim& place : index.elements) {
    if (!place.is_constant() || place.value() < -size || place.value() >= size) return std::nullopt;
    places.push_back(place.value() < 0 ? place.value() + size : place.value());
  }
  return places;
}

// Returns the result of a node that moves or creates elements.
std::optional<KnownSizes> moved(const Node& node, const std::vector<int64_t>& shape,
                                const std::vector<KnownSizes>& in) {
  const std::string_view op = node.op->info.name;
  if (op == "dim_value") return KnownSizes{{}, {from_attributes<ops::DimValue>(node.attributes).dim[0]}};
  if (op == "full") {
    const Scalar value = from_attributes<ops::Full>(node.attributes).value;
    if (value.as_double() != std::floor(value.as_double())) return std::nullopt;
    return KnownSizes{shape, std::vector<Dim>(static_cast<size_t>(count_of(shape)), Dim(value.as_integer()))};
  }
  if (op == "reshape" || op == "cast" || op == "floor" || op == "ceil" || op == "round") {
    KnownSizes result{shape, in[0].elements};
    if (op == "cast" && from_attributes<ops::Cast>(node.attributes).dtype == DType::boolean)
      for (Dim& element : result.elements) {
        const auto is_zero = is_equal(element, Dim(0));
        if (!is_zero) return std::nullopt;
        element = Dim(1) - *is_zero;
      }
    return result;
  }
  if (op == "expand") return broadcast_each(shape, in, [](const auto& e) { return std::optional(e[0]); });
  if (op == "concat")
    return joined_along(in, static_cast<size_t>(std::get<int64_t>(*node.attributes.find("axis"))));
  if (op == "slice") {
    const auto slice = from_attributes<ops::Slice>(node.attributes);
    if (!slice.start[0].is_constant() || !slice.length[0].is_constant()) return std::nullopt;
    std::vector<int64_t> places;
    for (int64_t i = 0; i < slice.length[0].value(); ++i)
      places.push_back(slice.start[0].value() + i * slice.step);
    return taken_along(in[0], static_cast<size_t>(slice.axis), places);
  }
  if (op == "index_select") {
    const auto axis = static_cast<size_t>(std::get<int64_t>(*node.attributes.find("axis")));
    const auto places = places_of(in[1], in[0].shape[axis]);
    if (places) return taken_along(in[0], axis, *places);
  }
  return std::nullopt;
}

std::optional<KnownSizes> elementwise(const Node& node, const std::vector<int64_t>& shape,
                                      const std::vector<KnownSizes>& in) {
  const std::string_view op = node.op->info.name;
  if (const Binary binary = find_binary(op); binary && in.size() == 2)
    return broadcast_each(shape, in, [&](const auto& e) { return binary(e[0], e[1]); });
  if (op == "neg")
    return broadcast_each(shape, in, [](const auto& e) { return std::optional(Dim(0) - e[0]); });
  if (op == "logical_not")
    return broadcast_each(shape, in, [](const auto& e) { return is_equal(e[0], Dim(0)); });
  if (op == "where")
    return broadcast_each(shape, in, [](const auto& e) {
      return e[0].is_constant() ? std::optional(e[0].value() != 0 ? e[1] : e[2]) : std::nullopt;
    });
  if (op == "prod" || op == "sum") {
    if (count_of(shape) != 1) return std::nullopt;
    Dim result = op == "prod" ? 1 : 0;
    for (const Dim& element : in[0].elements) result = op == "prod" ? result * element : result + element;
    return KnownSizes{shape, {result}};
  }
  return std::nullopt;
}

// The nodes that a value is made by, in order; nothing if an input or a random number is among the ancestors. A weight among them counts
// with the value that the file gives it: only sizes, axes and the like are asked for, which training does not change.
std::optional<std::vector<NodeId>> constant_ancestors(Value value) {
  const Graph& graph = *value.graph;
  std::set<NodeId> nodes;
  std::vector<ValueId> open = {value.id};
  while (!open.empty()) {
    const ValueInfo& info = graph.value(open.back());
    open.pop_back();
    if (info.kind == ValueKind::kInput) return std::nullopt;
    if (!info.type.shape.is_constant() || info.type.numel() > kMaxComputed) return std::nullopt;
    if (info.kind != ValueKind::kNode || !nodes.insert(info.producer).second) continue;
    const Node& node = graph.node(info.producer);
    if (is<ops::Loop>(*node.op)) return std::nullopt;
    if (node.op->info.name == "dim_value" &&
        !from_attributes<ops::DimValue>(node.attributes).dim.is_constant())
      return std::nullopt;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return std::vector<NodeId>(nodes.begin(), nodes.end());
}

// Returns the value of a constant or a weight.
Tensor stored_value(const Graph& graph, const ValueInfo& info) {
  if (info.kind == ValueKind::kState) return graph.model().state(info.index).initial;
  return graph.model().tensors()[static_cast<size_t>(info.index)].tensor;
}

Tensor run_alone(Value value, const std::vector<NodeId>& nodes) {
  const Graph& graph = *value.graph;
  auto model = std::make_shared<Model>();
  Graph& part = model->add_entry("known");
  std::map<ValueId, Value> made;
  const auto find = [&](ValueId id) {
    const auto known = made.find(id);
    if (known != made.end()) return known->second;
    const int32_t tensor = model->add_tensor("t", stored_value(graph, graph.value(id)));
    return made[id] = part.constant(tensor);
  };
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(find(input));
    const auto outputs = part.add_node(*node.op, node.attributes, inputs);
    for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i) made[node.outputs[i]] = outputs[i];
  }
  part.add_output("value", find(value.id));
  Session session(model, {.device = "cpu", .threads = 1});
  return session.run("known")["value"];
}

}  // namespace

std::optional<Tensor> KnownValues::tensor(Value value) {
  const auto [place, is_new] = tensors_.emplace(value.id.index, std::nullopt);
  if (!is_new) return place->second;
  const ValueInfo& info = value.graph->value(value.id);
  if (info.kind == ValueKind::kConstant || info.kind == ValueKind::kState)
    return place->second = stored_value(*value.graph, info);
  if (const auto nodes = constant_ancestors(value)) place->second = run_alone(value, *nodes);
  return tensors_[value.id.index];
}

std::optional<KnownSizes> KnownValues::sizes(Value value) {
  const auto known = sizes_.find(value.id.index);
  if (known != sizes_.end()) return known->second;
  if (depth_ >= kDeepest) return std::nullopt;
  ++depth_;
  auto result = compute(value);
  --depth_;
  if (!result)
    if (const auto made = tensor(value)) result = whole_numbers(*made);
  return sizes_[value.id.index] = result;
}

std::optional<KnownSizes> KnownValues::compute(Value value) {
  const ValueInfo& info = value.graph->value(value.id);
  const auto shape = known_shape(value);
  if (!shape || info.kind != ValueKind::kNode || info.index != 0) return std::nullopt;
  const Node& node = value.graph->node(info.producer);
  std::vector<KnownSizes> in;
  for (const ValueId id : node.inputs) {
    const auto input = sizes({value.graph, id});
    if (!input) return std::nullopt;
    in.push_back(*input);
  }
  auto result = moved(node, *shape, in);
  return result ? result : elementwise(node, *shape, in);
}

std::vector<std::string> KnownValues::sources(Value value) const {
  const Graph& graph = *value.graph;
  std::set<std::string> names;
  std::set<int32_t> seen;
  std::vector<ValueId> open = {value.id};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id.index).second) continue;
    const ValueInfo& info = graph.value(id);
    if (info.kind == ValueKind::kInput) names.insert(info.name);
    if (info.kind == ValueKind::kState) names.insert(graph.model().state(info.index).name);
    if (info.kind != ValueKind::kNode) continue;
    const Node& node = graph.node(info.producer);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return {names.begin(), names.end()};
}

Shifted KnownValues::shifted(Value value) {
  const ValueInfo& info = value.graph->value(value.id);
  const auto known_number = [&](ValueId id) -> std::optional<int64_t> {
    const auto number = sizes({value.graph, id});
    const bool is_one = number && number->elements.size() == 1 && number->elements[0].is_constant();
    return is_one ? std::optional(number->elements[0].value()) : std::nullopt;
  };
  if (info.kind != ValueKind::kNode || !value.shape().is_constant() || value.type().numel() != 1)
    return {value.id};
  const Node& node = value.graph->node(info.producer);
  const std::string_view op = node.op->info.name;
  if ((op == "reshape" || op == "cast") && value.dtype() != DType::boolean)
    return shifted({value.graph, node.inputs[0]});
  if (op != "add" && op != "sub" && op != "minimum") return {value.id};
  auto number = known_number(node.inputs[1]);
  const bool is_swapped = !number && op != "sub";
  if (is_swapped) number = known_number(node.inputs[0]);
  if (!number) return {value.id};
  Shifted result = shifted({value.graph, node.inputs[is_swapped ? 1 : 0]});
  if (op == "minimum") {
    result.limit = std::min(result.limit.value_or(*number), *number);
    return result;
  }
  if (result.limit) return {value.id};
  result.offset += op == "add" ? *number : -*number;
  return result;
}

bool KnownValues::follows_loop(Value value) const {
  const Graph& graph = *value.graph;
  std::set<int32_t> seen;
  std::vector<ValueId> open = {value.id};
  while (!open.empty()) {
    const ValueInfo& info = graph.value(open.back());
    const bool is_new = seen.insert(open.back().index).second;
    open.pop_back();
    if (!is_new || info.kind != ValueKind::kNode) continue;
    const Node& node = graph.node(info.producer);
    if (is<ops::Loop>(*node.op)) return true;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

Value value_of_sizes(Graph& graph, const KnownSizes& sizes, DType dtype) {
  std::vector<int64_t> numbers;
  for (const Dim& element : sizes.elements)
    if (element.is_constant()) numbers.push_back(element.value());
  if (numbers.size() == sizes.elements.size() && dtype == DType::i64)
    return graph.constant(graph.model().add_tensor("sizes", Tensor::of(sizes.shape, numbers)));
  std::vector<Value> elements;
  for (const Dim& element : sizes.elements)
    elements.push_back(reshape(
        element.is_constant() ? full(graph, {}, element.value(), dtype) : dim_value(graph, element, dtype),
        {1}));
  if (elements.empty()) return zeros(graph, Shape::of(sizes.shape), dtype);
  return reshape(elements.size() == 1 ? elements[0] : concat(elements, 0), Shape::of(sizes.shape));
}

}  // namespace genesis::models::onnx
