// Dimensions of ONNX values as texts: "768", a name such as "batch", or "?" where nothing is known. Arithmetic that leaves
// 64 bits, or meets a name, gives "?".
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
OnnxDim dim_of(std::optional<int64_t> size);  // "?" for nothing and for less than 0
// An element of a tensor of sizes as a dimension: "?" if it is less than 0.
OnnxDim as_dim(const OnnxDim& element);
OnnxShape as_shape(const std::vector<OnnxDim>& elements);

std::optional<int64_t> plus(std::optional<int64_t> a, std::optional<int64_t> b);
std::optional<int64_t> times(std::optional<int64_t> a, std::optional<int64_t> b);
std::optional<int64_t> product(const OnnxShape& shape);

// All as numbers; empty: one is not.
std::optional<std::vector<int64_t>> sizes_of(const OnnxShape& shape);

// Broadcasts as numpy does.
OnnxDim broadcast(const OnnxDim& a, const OnnxDim& b);
OnnxShape broadcast(const OnnxShape& a, const OnnxShape& b);

// Counted from the front; empty: there is no such axis.
std::optional<size_t> axis_of(int64_t axis, size_t rank);

}  // namespace genesis::viz
