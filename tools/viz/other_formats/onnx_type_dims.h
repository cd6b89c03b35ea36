// Dimensions of ONNX values as texts: "768", a name such as "batch", or "?" if unknown. Arithmetic that overflows 64
// bits, or uses a name, gives "?".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace genesis::viz {

using OnnxDim = std::string;
using OnnxShape = std::vector<OnnxDim>;

inline const OnnxDim kUnknownDim = "?";

std::optional<int64_t> size_of(const OnnxDim& dim);
OnnxDim dim_of(std::optional<int64_t> size);  // "?" for no value and for a negative one
// Converts an element of a shape tensor to a dimension: "?" if it is negative.
OnnxDim as_dim(const OnnxDim& element);
OnnxShape as_shape(const std::vector<OnnxDim>& elements);

std::optional<int64_t> plus(std::optional<int64_t> a, std::optional<int64_t> b);
std::optional<int64_t> times(std::optional<int64_t> a, std::optional<int64_t> b);
std::optional<int64_t> product(const OnnxShape& shape);

// Returns all dimensions as numbers; empty if one is unknown.
std::optional<std::vector<int64_t>> sizes_of(const OnnxShape& shape);

// Broadcasts by numpy's rules.
OnnxDim broadcast(const OnnxDim& a, const OnnxDim& b);
OnnxShape broadcast(const OnnxShape& a, const OnnxShape& b);

// Returns the axis counted from the front; empty if there is no such axis.
std::optional<size_t> axis_of(int64_t axis, size_t rank);

}  // namespace genesis::viz
