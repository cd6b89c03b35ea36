#include "schema/graph/cost.h"

#include <algorithm>

namespace genesis {

double bytes_moved(std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  double bytes = 0;
  for (const TensorType& type : inputs) bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : outputs) bytes += static_cast<double>(type.bytes());
  return bytes;
}

double product_flops(const TensorType& result, int64_t inner) {
  return 2 * static_cast<double>(result.numel()) * static_cast<double>(inner);
}

int64_t axis_size(const TensorType& type, int axis) {
  return type.shape[axis < 0 ? type.shape.rank() + axis : axis].value();
}

double row_length(const TensorType& type) {
  return type.shape.rank() == 0 ? 1 : static_cast<double>(axis_size(type, -1));
}

double row_count(const TensorType& type) {
  return static_cast<double>(type.numel()) / std::max(1.0, row_length(type));
}

double elements_each(std::span<const TensorType> inputs, const TensorType& result) {
  double all = 0;
  for (const TensorType& type : inputs) all += static_cast<double>(type.numel());
  return std::max(1.0, all / std::max(1.0, static_cast<double>(result.numel())));
}

}  // namespace genesis
