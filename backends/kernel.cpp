#include "backends/kernel.h"

namespace genesis {

TensorView view_of(const TensorType& type, void* data) {
  TensorView view{.data = data, .dtype = type.dtype, .rank = type.shape.rank(), .dims = {}};
  for (int i = 0; i < view.rank; ++i) view.dims[static_cast<size_t>(i)] = type.shape[i].value();
  return view;
}

Tensor copy_of(const TensorView& view) {
  const auto sizes = view.sizes();
  return Tensor::copy_of({view.dtype, Shape::of({sizes.begin(), sizes.end()})}, view.data);
}

}  // namespace genesis
