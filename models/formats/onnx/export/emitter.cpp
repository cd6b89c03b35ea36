#include "models/formats/onnx/export/emitter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "schema/core/error.h"

namespace genesis::models::onnx {

Emitter::Emitter(const Graph& graph, std::map<ValueId, std::string> input_names)
    : graph_(graph), input_names_(std::move(input_names)), names_(std::make_shared<Names>()) {
  for (const auto& [id, name] : input_names_) reserve(name);
}

Emitter::Emitter(const Graph& body, std::map<ValueId, std::string> input_names, Emitter& outer)
    : graph_(body), input_names_(std::move(input_names)), outer_(&outer), names_(outer.names_) {}

std::string Emitter::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 1; !names_->values.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

bool Emitter::rename(const std::string& value, const std::string& wanted) {
  bool is_new = false;
  for (size_t i = first_; i < record_.nodes.size(); ++i) {
    OnnxNodeRecord& node = record_.nodes[i];
    for (std::string& output : node.outputs)
      if (output == value) output = wanted, is_new = true;
    if (!is_new) continue;
    for (std::string& input : node.inputs)
      if (input == value) input = wanted;
  }
  return is_new;
}

Out Emitter::add(const std::string& op, const std::vector<Out>& inputs, const std::string& attributes) {
  return add(op, inputs, attributes, inputs.at(0).dtype);
}

Out Emitter::add(const std::string& op, const std::vector<Out>& inputs, const std::string& attributes,
                 DType dtype) {
  return add_several(op, inputs, attributes, {dtype})[0];
}

std::vector<Out> Emitter::add_several(const std::string& op, const std::vector<Out>& inputs,
                                      const std::string& attributes, const std::vector<DType>& dtypes) {
  OnnxNodeRecord node;
  node.op = op;
  node.name = fmt::format("{}/{}", scope_, op);
  for (int i = 1; !names_->nodes.insert(node.name).second; ++i)
    node.name = fmt::format("{}/{}_{}", scope_, op, i);
  node.attributes = attributes;
  for (const Out& input : inputs) node.inputs.push_back(input.name);
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  std::vector<Out> results;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    results.push_back({unique(i == 0 ? node.name : fmt::format("{}:{}", node.name, i)), dtypes[i]});
    node.outputs.push_back(results.back().name);
  }
  record_.nodes.push_back(std::move(node));
  return results;
}

Out Emitter::constant(const std::string& name, const Tensor& value) {
  if (outer_) return outer_->constant(name, value);
  const Out result{unique(name), value.dtype()};
  record_.initializers.emplace_back(result.name, value);
  return result;
}

Out Emitter::integers(const std::vector<int64_t>& values) {
  const std::string text = fmt::format("[{}]", fmt::join(values, ","));
  const auto known = known_.find(text);
  if (known != known_.end()) return known->second;
  return known_[text] = constant("sizes" + text, Tensor::of({static_cast<int64_t>(values.size())}, values));
}

Out Emitter::number(double value, DType dtype) {
  const std::string text = fmt::format("{}:{}", value, name_of(dtype));
  const auto known = known_.find(text);
  if (known != known_.end()) return known->second;
  Tensor tensor = Tensor::scalar(value);
  if (is_float(dtype))
    tensor = tensor.to(dtype);
  else
    tensor = dispatch(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_same_v<T, bool>) {
        return Tensor::scalar(value != 0);
      } else if constexpr (std::is_integral_v<T>) {
        using Limits = std::numeric_limits<T>;  // bounds of integers may be infinite
        if (value >= static_cast<double>(Limits::max())) return Tensor::scalar(Limits::max());
        if (value <= static_cast<double>(Limits::min())) return Tensor::scalar(Limits::min());
        return Tensor::scalar(static_cast<T>(value));
      }
      return tensor;
    });
  return known_[text] = constant("number_" + text, tensor);
}

Out Emitter::cast(const Out& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return add("Cast", {x}, onnx_attribute("to", static_cast<int64_t>(onnx_element_of(dtype))), dtype);
}

// --- sizes

Out Emitter::symbol(const std::string& name) {
  for (const auto& [id, input] : input_names_) {
    const Shape& shape = graph_.type(id).shape;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (shape[axis] == Dim::symbol(name))
        return add("Shape", {{input, DType::i64}},
                   onnx_attribute("start", int64_t{axis}) + onnx_attribute("end", int64_t{axis + 1}));
  }
  fail("the size '{}' is no size of an input, so that ONNX cannot compute it: give inputs with it, or fix it",
       name);
}

Out Emitter::sum_from(std::string_view text, size_t& at) {
  Out sum = product_from(text, at);
  while (at < text.size() && (text[at] == '+' || text[at] == '-')) {
    const bool minus = text[at++] == '-';
    sum = add(minus ? "Sub" : "Add", {sum, product_from(text, at)});
  }
  return sum;
}

// A sum has negative terms as "n+-2*m".
Out Emitter::product_from(std::string_view text, size_t& at) {
  const bool is_negative = at < text.size() && text[at] == '-';
  if (is_negative) ++at;
  Out product = factor_from(text, at);
  while (at < text.size() && text[at] == '*') {
    ++at;
    product = add("Mul", {product, factor_from(text, at)});
  }
  return is_negative ? add("Neg", {product}) : product;
}

Out Emitter::factor_from(std::string_view text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && std::string_view("+-*(),").find(text[at]) == std::string_view::npos) ++at;
  const std::string word(text.substr(begin, at - begin));
  if (at >= text.size() || text[at] != '(')
    return std::isdigit(static_cast<unsigned char>(word.at(0))) ? integers({std::stoll(word)}) : symbol(word);
  ++at;  // the parenthesis
  const Out a = sum_from(text, at);
  ++at;  // the comma
  const Out b = sum_from(text, at);
  ++at;
  if (word == "floor_div") return add("Div", {a, b});  // sizes are not negative
  return add(word == "max" ? "Max" : "Min", {a, b});
}

Out Emitter::dim(const Dim& dim) {
  if (dim.is_constant()) return integers({dim.value()});
  const std::string text = dim.to_string();
  const auto known = known_.find(text);
  if (known != known_.end()) return known->second;
  size_t at = 0;
  return known_[text] = sum_from(text, at);
}

Out Emitter::shape(const std::vector<Dim>& dims) {
  std::vector<int64_t> numbers;
  for (const Dim& size : dims)
    if (size.is_constant()) numbers.push_back(size.value());
  if (numbers.size() == dims.size()) return integers(numbers);
  std::vector<Out> parts;
  for (const Dim& size : dims) parts.push_back(dim(size));
  return parts.size() == 1 ? parts[0] : add("Concat", parts, onnx_attribute("axis", int64_t{0}));
}

Out Emitter::scalar(const Dim& size) { return add("Squeeze", {dim(size), integers({0})}); }

Out Emitter::counted(const Dim& length) {
  return add("Range", {number(0, DType::i64), scalar(length), number(1, DType::i64)});
}

// ONNX takes 0 for the size that x has at the same place, and -1 for one size that follows from the others.
Out Emitter::reshape(const Out& x, const Shape& from, const Shape& to) {
  if (from == to) return x;
  std::vector<int64_t> sizes;
  int open = 0;
  bool has_zero = false;
  for (int axis = 0; axis < to.rank(); ++axis) {
    const bool is_same = axis < from.rank() && from[axis] == to[axis];
    const bool is_known = to[axis].is_constant();
    has_zero = has_zero || (is_known && to[axis].value() == 0);
    sizes.push_back(is_known ? to[axis].value() : is_same ? 0 : -1);
    open += !is_known && !is_same;
  }
  if (has_zero)
    return add("Reshape", {x, shape({to.begin(), to.end()})}, onnx_attribute("allowzero", int64_t{1}));
  return add("Reshape", {x, open <= 1 ? integers(sizes) : shape({to.begin(), to.end()})});
}

Out Emitter::transpose(const Out& x, const std::vector<int64_t>& axes) {
  return std::ranges::is_sorted(axes) ? x : add("Transpose", {x}, onnx_attribute("perm", axes));
}

Out Emitter::slice(const Out& x, int64_t axis, const Out& start, const Out& end, int64_t step) {
  return add("Slice", {x, start, end, integers({axis}), integers({step})});
}

Out Emitter::unsqueeze(const Out& x, const std::vector<int64_t>& axes) {
  return add("Unsqueeze", {x, integers(axes)});
}

}  // namespace genesis::models::onnx
