// A node as the rule of its operator sees it: its attributes, the known facts about its inputs, and the inferred
// facts about its outputs. A rule infers nothing if something is missing or contradictory; the value's type is
// unknown then.
#pragma once

#include "schema/file/other_formats/onnx/model_file.h"
#include "tools/viz/other_formats/onnx_type_dims.h"

namespace genesis::viz {

// The known facts about a value.
struct OnnxValue {
  OnnxType type;
  // The elements of an integer value with at most one dimension and at most kShownElements elements, if they are
  // known: shapes are computed from them. A name stands for the size of the dimension with that name.
  std::optional<std::vector<OnnxDim>> elements;
  std::vector<double> reals;  // elements of a value of reals, likewise; empty: unknown
};

OnnxValue value_of(const OnnxTensor& tensor);

struct OnnxCall {
  const OnnxNode& node;
  int64_t opset = 0;                     // 0: unknown
  std::vector<const OnnxValue*> inputs;  // null: the node leaves this input out
  std::vector<OnnxValue> outputs;        // one per named output of the node

  bool has(size_t input) const { return input < inputs.size() && inputs[input] != nullptr; }
  // Null if the number of dimensions is unknown.
  const OnnxShape* shape(size_t input) const;
  const std::vector<OnnxDim>* elements(size_t input) const;
  std::optional<std::vector<int64_t>> integers(size_t input) const;

  int64_t integer(std::string_view attribute, int64_t otherwise) const;
  std::string string(std::string_view attribute) const;
  const std::vector<int64_t>* integers(std::string_view attribute) const;  // null: no such attribute
  // Returns the integers from input `input`, or from the attribute as in older versions of the operator.
  std::optional<std::vector<int64_t>> integers(std::string_view attribute, size_t input) const;

  // Sets the element type of an output: that of an input, or `element`.
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

// The rules of each family of operators, defined in a file of its own.
std::span<const NamedOnnxRule> elementwise_rules();
std::span<const NamedOnnxRule> move_rules();
std::span<const NamedOnnxRule> shape_rules();
std::span<const NamedOnnxRule> window_rules();
std::span<const NamedOnnxRule> product_rules();

const OnnxType& i64_type();
const OnnxType& bool_type();

// Infers the outputs of the node if its operator is known.
void infer_outputs(OnnxCall& call);

// Merges two types of one value. `said` wins if they contradict each other.
OnnxType merged(const OnnxType& said, const OnnxType& inferred);
// Returns the type of a value that is either `a` or `b`.
OnnxType common(const OnnxType& a, const OnnxType& b);

}  // namespace genesis::viz
