// The operators of torch that exported programs call, each translated to ops of ours. One file for each kind; a new operator is one
// row of a table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/formats/pt2/call.h"

namespace genesis::models::pt2 {

// The results of a call: tensors, or one size. An operator that only checks something has none.
using Results = std::variant<std::vector<Value>, Dim>;
using Translate = Results (*)(Call&);

struct Operator {
  std::string_view name;  // "aten.add.Tensor"
  Translate translate;
};
using Operators = std::vector<Operator>;

// Tables by kind.
const Operators& elementwise_operators();
const Operators& shape_operators();
const Operators& reduction_operators();
const Operators& index_operators();
const Operators& creation_operators();
const Operators& image_operators();
const Operators& layer_operators();
const Operators& recurrent_operators();
const Operators& size_operators();
const Operators& writing_operators();

// The elements of an axis that a call of aten.slice or aten.slice_scatter names: [begin, end) in steps.
struct SliceBounds {
  Dim begin, end;
  int64_t step = 1;
};
SliceBounds slice_bounds(Call& call, const Dim& size);
// Returns x with `value` in the place that a call of aten.slice or aten.select takes; an empty Value for a slice in steps.
Value try_write_slice(Call& call, Value x, Value value);
// Returns x with `values` at, or added at, the places that the argument `indices` of a call names (x[:, i, j] = values).
Value write_at_indices(Call& call, Value x, Value values, bool adds);

// Returns the operator, or null. A call names it "torch.ops.aten.add.Tensor".
const Operator* find_operator(std::string_view target);
std::vector<std::string> operator_names();  // sorted

// For tables: a translation with one result.
template <Value (*translate)(Call&)>
Results one(Call& call) {
  return std::vector<Value>{translate(call)};
}

}  // namespace genesis::models::pt2
