// One node as the rules of its operator see it: what is known of its inputs, its attributes, and what they say of its
// outputs. The rules stay silent where something is missing or contradicts itself: a value is then of unknown type.
#pragma once

#include "tools/viz/foreign/onnx_file.h"
#include "tools/viz/foreign/onnx_type_dims.h"

namespace genesis::viz {

// A value as far as it is known.
struct OnnxValue {
  OnnxType type;
  // The integers of a value with at most one dimension and at most kShownElements elements, if they are known: shapes are
  // computed from them. A name stands for the size of the dimension with that name.
  std::optional<std::vector<OnnxDim>> elements;
  std::vector<double> reals;  // likewise of reals; empty: not known
};

OnnxValue value_of(const OnnxTensor& tensor);

struct OnnxCall {
  const OnnxNode& node;
  int64_t opset = 0;                     // 0: not known
  std::vector<const OnnxValue*> inputs;  // null: left out
  std::vector<OnnxValue> outputs;        // one for each that the node names

  bool has(size_t input) const { return input < inputs.size() && inputs[input] != nullptr; }
  // Null where the number of dimensions is not known.
  const OnnxShape* shape(size_t input) const;
  const std::vector<OnnxDim>* elements(size_t input) const;
  std::optional<std::vector<int64_t>> integers(size_t input) const;

  int64_t integer(std::string_view attribute, int64_t otherwise) const;
  std::string string(std::string_view attribute) const;
  const std::vector<int64_t>* integers(std::string_view attribute) const;  // null: there are none
  // From input `input`, or from the attribute, where older versions of the operator have them.
  std::optional<std::vector<int64_t>> integers(std::string_view attribute, size_t input) const;

  // Says the element type of an output: the one of an input, or one by its name.
  void type_like(size_t input, size_t output = 0);
  void type(const OnnxType& element, size_t output = 0);
  void shape(OnnxShape shape, size_t output = 0);
  void elements(std::vector<OnnxDim> elements, size_t output = 0);
};

using OnnxRule = void (*)(OnnxCall& call);
struct NamedOnnxRule {
  const char* op;
  OnnxRule rule;
};

// The families of operators, each in a file of its own.
std::span<const NamedOnnxRule> elementwise_rules();
std::span<const NamedOnnxRule> move_rules();
std::span<const NamedOnnxRule> shape_rules();
std::span<const NamedOnnxRule> window_rules();
std::span<const NamedOnnxRule> product_rules();

const OnnxType& i64_type();
const OnnxType& bool_type();

// Says what the outputs of the node are, if the operator is known.
void infer_outputs(OnnxCall& call);

// Joins two accounts of one value. `said` wins if they contradict each other.
OnnxType merged(const OnnxType& said, const OnnxType& inferred);
// Returns the type of a value that is the one or the other.
OnnxType common(const OnnxType& a, const OnnxType& b);

}  // namespace genesis::viz
