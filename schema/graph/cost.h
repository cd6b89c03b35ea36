// What a node must do at least: bytes that have to move and arithmetic of matrix products. For profiles,
// rooflines, schedules and the choice of what to compute again. An op whose cost is not that of reading all
// inputs and writing all outputs once says so beside its rules, in a member `Cost cost(Types in, Types out)`.
#pragma once

#include <span>

#include "schema/core/shape.h"

namespace genesis {

struct Cost {
  double bytes = 0;  // read once, written once
  double flops = 0;  // multiply-adds count two; 0 for ops that memory bounds
  // The above is the most there can be: data say how much there is, how full a cache is or how long a row.
  bool depends_on_data = false;
};

// All inputs read and all outputs written once. Sizes must be known, here and below.
double bytes_moved(std::span<const TensorType> inputs, std::span<const TensorType> outputs);

// Of an op that reads of its inputs only what it copies to `result`.
inline Cost cost_of_copy(const TensorType& result) { return {.bytes = 2 * bytes_moved({}, {&result, 1})}; }

// Of a matrix product with `result` elements, each a sum over `inner` products.
double product_flops(const TensorType& result, int64_t inner);

// The size of an axis, which may be counted from behind.
int64_t axis_size(const TensorType& type, int axis);

// Of the last axis, 1 of a scalar; and how many such rows there are.
double row_length(const TensorType& type);
double row_count(const TensorType& type);
// How many elements of `inputs` there are for one of `result`, 1 at least.
double elements_each(std::span<const TensorType> inputs, const TensorType& result);

}  // namespace genesis
