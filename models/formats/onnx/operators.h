// The operators of ONNX that are read, each translated to ops of ours. One file for each kind; a new operator is one row of a table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/formats/onnx/call.h"

namespace genesis::models::onnx {

using Results = std::vector<ItemPtr>;
using Translate = Results (*)(Call&);

// The element types that an operator takes besides those that are a DType.
enum class Takes : uint8_t {
  kNumbers,   // none
  kUnsigned,  // u16, u32 and u64: the result is cut to the range of its type
  kAny,       // all: it moves elements and does not compute with them
  kAnyAlone,  // all, and results have no element type but their own: it asks for sizes, or converts
};

struct Operator {
  std::string_view name;  // "Add", or "com.microsoft::Gelu"
  Translate translate;
  int64_t since = 1;  // the first version that is read
  Takes takes = Takes::kNumbers;
};
using Operators = std::vector<Operator>;

// Tables by kind.
const Operators& elementwise_operators();
const Operators& integer_operators();
const Operators& shape_operators();
const Operators& index_operators();
const Operators& reduction_operators();
const Operators& product_operators();
const Operators& window_operators();
const Operators& norm_operators();
const Operators& type_operators();
const Operators& control_operators();
const Operators& sequence_operators();
const Operators& recurrent_operators();
const Operators& attention_operators();
const Operators& loss_operators();
const Operators& sampling_operators();
const Operators& signal_operators();

const Operator* find_operator(std::string_view name);  // null if it is not read
std::vector<std::string> operator_names();             // sorted

// For tables: translations with one result, and of one or two tensors.
template <Value (*translate)(Call&)>
Results one(Call& call) {
  return {item_of(translate(call))};
}
template <Value (*function)(Value)>
Results unary(Call& call) {
  return {item_of(function(call.tensor(0)))};
}
template <Value (*function)(Value, Value)>
Results binary(Call& call) {
  call.accept_any("axis"), call.accept_any("broadcast");
  return {item_of(function(call.tensor(0), call.tensor(1)))};
}

inline Results results_of(const std::vector<Value>& values) {
  Results results;
  for (const Value& value : values) results.push_back(item_of(value));
  return results;
}

}  // namespace genesis::models::onnx
