// The geometry of batch_norm and its gradient with known sizes, shared by all backends.
#pragma once

#include "backends/common/window_shape.h"
#include "schema/ops/nn/batch_norm.h"

namespace genesis {

struct BatchNormShape {
  DType dtype = DType::f32;
  int64_t batch = 1, elements = 1;  // images, and elements of a channel in each
  ChannelPlanes planes;
  double eps = 0;
  bool relu = false, has_addend = false;
  bool two_gradients = false, with_output = false;  // attributes of the gradient

  bool reads_y() const { return relu && has_addend; }  // the gradient does
  int64_t channels() const { return planes.channels; }
  int64_t numbers() const { return batch * elements; }  // count of one channel
};

inline std::shared_ptr<const void> prepare_batch_norm(const KernelQuery& query) {
  ops::BatchNormGrad op;  // The gradient has the attributes of both.
  if (query.attributes.find("with_output")) {
    op = from_attributes<ops::BatchNormGrad>(query.attributes);
  } else {
    const auto forward = from_attributes<ops::BatchNorm>(query.attributes);
    op = {forward.eps, forward.relu, forward.has_addend, forward.channels_last, false, false};
  }
  const Shape& x = query.inputs[0].shape;
  const int channel_axis = op.channels_last ? x.rank() - 1 : 1;
  auto shape = std::make_shared<BatchNormShape>();
  shape->dtype = query.inputs[0].dtype;
  shape->planes = {x[channel_axis].value(), op.channels_last};
  shape->eps = op.eps, shape->relu = op.relu, shape->has_addend = op.has_addend;
  shape->two_gradients = op.two_gradients, shape->with_output = op.with_output;
  shape->batch = x[0].value();
  for (int axis = 1; axis < x.rank(); ++axis)
    if (axis != channel_axis) shape->elements = checked_mul(shape->elements, x[axis].value());
  return shape;
}

}  // namespace genesis
