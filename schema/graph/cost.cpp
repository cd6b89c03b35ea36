#include "schema/graph/cost.h"

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

}  // namespace genesis
