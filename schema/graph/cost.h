// The least work of a node: bytes that must move, and arithmetic of matrix products. Used in profiles, rooflines and schedules,
// and to choose values to recompute. By default a node reads all inputs and writes all outputs once; an op with another cost
// defines a member `Cost cost(Types in, Types out)` beside its rules.
#pragma once

#include <span>

#include "schema/core/shape.h"

namespace genesis {

struct Cost {
  double bytes = 0;  // each byte read or written counts once
  double flops = 0;  // a multiply-add counts two; 0 for ops that are bound by memory
  // The cost is an upper bound: it depends on data, such as the filled length of a cache or the length of a row.
  bool depends_on_data = false;
};

// Returns the bytes of reading all inputs and writing all outputs once. Sizes must be known, here and below.
double bytes_moved(std::span<const TensorType> inputs, std::span<const TensorType> outputs);

// Returns the cost of an op that reads only those elements of its inputs that it copies to `result`.
inline Cost cost_of_copy(const TensorType& result) { return {.bytes = 2 * bytes_moved({}, {&result, 1})}; }

// Returns the flops of a matrix product with `result` elements, each a sum over `inner` products.
double product_flops(const TensorType& result, int64_t inner);

// Returns the size of an axis; a negative axis counts from the end.
int64_t axis_size(const TensorType& type, int axis);

// Return the length of the last axis (1 for a scalar), and the number of rows of that length.
double row_length(const TensorType& type);
double row_count(const TensorType& type);
// Returns how many elements of `inputs` there are per element of `result`, at least 1.
double elements_each(std::span<const TensorType> inputs, const TensorType& result);

}  // namespace genesis
