#include "tools/viz/other_formats/onnx_type_call.h"

#include <string_view>
#include <unordered_map>

namespace genesis::viz {
namespace {

using Rules = std::unordered_map<std::string_view, OnnxRule>;

const Rules& all_rules() {
  static const Rules kRules = [] {
    Rules rules;
    for (const auto family :
         {elementwise_rules(), move_rules(), shape_rules(), window_rules(), product_rules()})
      for (const auto& [op, rule] : family) rules.emplace(op, rule);
    return rules;
  }();
  return kRules;
}

}  // namespace

const OnnxType& i64_type() {
  static const OnnxType kType = onnx_element_type(7);
  return kType;
}

const OnnxType& bool_type() {
  static const OnnxType kType = onnx_element_type(9);
  return kType;
}

OnnxValue value_of(const OnnxTensor& tensor) {
  OnnxValue value{.type = tensor.type, .reals = tensor.reals};
  const bool is_list = tensor.type.shape.size() <= 1 && tensor.type.dtype.starts_with('i');
  if (!is_list || (tensor.integers.empty() && tensor.type.shape != OnnxShape{"0"})) return value;
  value.elements.emplace();
  for (const int64_t integer : tensor.integers) value.elements->push_back(std::to_string(integer));
  return value;
}

const OnnxShape* OnnxCall::shape(size_t input) const {
  return has(input) && inputs[input]->type.has_shape ? &inputs[input]->type.shape : nullptr;
}

const std::vector<OnnxDim>* OnnxCall::elements(size_t input) const {
  return has(input) && inputs[input]->elements ? &*inputs[input]->elements : nullptr;
}

std::optional<std::vector<int64_t>> OnnxCall::integers(size_t input) const {
  const auto* known = elements(input);
  return known ? sizes_of(*known) : std::nullopt;
}

int64_t OnnxCall::integer(std::string_view attribute, int64_t otherwise) const {
  const OnnxAttribute* found = node.attribute(attribute);
  return found && found->integer ? *found->integer : otherwise;
}

std::string OnnxCall::string(std::string_view attribute) const {
  const OnnxAttribute* found = node.attribute(attribute);
  return found && found->string ? *found->string : "";
}

const std::vector<int64_t>* OnnxCall::integers(std::string_view attribute) const {
  const OnnxAttribute* found = node.attribute(attribute);
  return found && !found->integers.empty() ? &found->integers : nullptr;
}

std::optional<std::vector<int64_t>> OnnxCall::integers(std::string_view attribute, size_t input) const {
  if (has(input)) return integers(input);
  if (const auto* found = integers(attribute)) return *found;
  return std::nullopt;
}

void OnnxCall::type(const OnnxType& element, size_t output) {
  if (output >= outputs.size()) return;
  outputs[output].type.dtype = element.dtype;
  outputs[output].type.bits = element.bits;
}

void OnnxCall::type_like(size_t input, size_t output) {
  if (has(input)) type(inputs[input]->type, output);
}

void OnnxCall::shape(OnnxShape shape, size_t output) {
  if (output >= outputs.size()) return;
  outputs[output].type.has_shape = true;
  outputs[output].type.shape = std::move(shape);
}

void OnnxCall::elements(std::vector<OnnxDim> elements, size_t output) {
  if (output < outputs.size() && elements.size() <= static_cast<size_t>(kShownElements))
    outputs[output].elements = std::move(elements);
}

void infer_outputs(OnnxCall& call) {
  const auto rule = all_rules().find(call.node.op);
  if (rule != all_rules().end()) rule->second(call);
}

OnnxType merged(const OnnxType& said, const OnnxType& inferred) {
  OnnxType type = said;
  if (type.dtype == "unknown") type.dtype = inferred.dtype, type.bits = inferred.bits;
  if (!type.has_shape) {
    type.has_shape = inferred.has_shape;
    type.shape = inferred.shape;
  } else if (inferred.has_shape && inferred.shape.size() == type.shape.size()) {
    for (size_t i = 0; i < type.shape.size(); ++i)
      if (type.shape[i] == kUnknownDim || (!size_of(type.shape[i]) && size_of(inferred.shape[i])))
        type.shape[i] = inferred.shape[i];
  }
  return type;
}

OnnxType common(const OnnxType& a, const OnnxType& b) {
  if (a.dtype != b.dtype) return {};
  OnnxType type = a;
  type.has_shape = a.has_shape && b.has_shape && a.shape.size() == b.shape.size();
  if (!type.has_shape) type.shape.clear();
  for (size_t i = 0; i < type.shape.size(); ++i)
    if (type.shape[i] != b.shape[i]) type.shape[i] = kUnknownDim;
  return type;
}

}  // namespace genesis::viz
