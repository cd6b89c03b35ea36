#include "backends/cuda/cudnn/cudnn_graph.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "backends/cuda/cudnn/cudnn_calls.h"

namespace genesis::cuda {

void DestroyCudnn::operator()(void* descriptor) const { dnn().destroy_descriptor(descriptor); }

size_t cudnn_version() { return dnn().version(); }

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

Dims dense(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

int64_t CudnnGraph::add_tensor(cudnnDataType_t type, std::span<const int64_t> dims,
                               std::span<const int64_t> strides, bool is_virtual, bool by_value) {
  CudnnDescriptor tensor = make_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto name = static_cast<int64_t>(tensors_.size()) + 1;
  const int64_t alignment = 16;
  set_value(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  set_attribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, static_cast<int64_t>(dims.size()),
                dims.data());
  set_attribute(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, static_cast<int64_t>(strides.size()),
                strides.data());
  set_value(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name);
  set_value(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  set_value(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  set_value(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  finalize(tensor, "describing a tensor");
  tensors_.push_back(std::move(tensor));
  words_ += fmt::format("tensor {} {} {} {} {}\n", static_cast<int>(type), fmt::join(dims, ","),
                        fmt::join(strides, ","), is_virtual, by_value);
  return name;
}

int64_t CudnnGraph::tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  return add_tensor(type, dims, strides, false, false);
}
int64_t CudnnGraph::tensor(cudnnDataType_t type, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& strides) {
  return add_tensor(type, dims, strides, false, false);
}
int64_t CudnnGraph::virtual_tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  return add_tensor(type, dims, strides, true, false);
}
int64_t CudnnGraph::virtual_tensor(cudnnDataType_t type, const std::vector<int64_t>& dims,
                                   const std::vector<int64_t>& strides) {
  return add_tensor(type, dims, strides, true, false);
}
int64_t CudnnGraph::scalar(cudnnDataType_t type) {
  return add_tensor(type, Dims{1, 1, 1, 1}, Dims{1, 1, 1, 1}, false, true);
}

void CudnnGraph::matmul(int64_t a, int64_t b, int64_t c, const Lengths& lengths) {
  words_ += fmt::format("matmul {} {} {} {} {} {}\n", a, b, c, lengths.m, lengths.n, lengths.k);
  CudnnDescriptor how = make_descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set_value(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finalize(how, "describing a product");
  CudnnDescriptor operation = make_descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(c));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how.get());
  if (lengths.m) set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, at(lengths.m));
  if (lengths.n) set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, at(lengths.n));
  if (lengths.k) set_descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, at(lengths.k));
  finalize(operation, "describing a product");
  details_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, int64_t x, int64_t b, int64_t y, int64_t t,
                           cudnnDataType_t compute, int64_t axis) {
  words_ += fmt::format("pointwise {} {} {} {} {} {} {}\n", static_cast<int>(mode), x, b, y, t,
                        static_cast<int>(compute), axis);
  CudnnDescriptor how = make_descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set_value(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  set_value(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
  if (axis >= 0) set_value(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  add_pointwise(std::move(how), x, b, y, t);
}

void CudnnGraph::clamp(int64_t x, int64_t y, double upper) {
  words_ += fmt::format("clamp {} {} {}\n", x, y, upper);
  CudnnDescriptor how = make_descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set_value(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD);
  set_value(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  set_value(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  set_value(how, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, upper);
  add_pointwise(std::move(how), x, 0, y, 0);
}

void CudnnGraph::add_pointwise(CudnnDescriptor how, int64_t x, int64_t b, int64_t y, int64_t t) {
  finalize(how, "describing an elementwise operation");
  CudnnDescriptor operation = make_descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_descriptor(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get());
  set_descriptor(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
  if (b) set_descriptor(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  if (t) set_descriptor(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(t));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  finalize(operation, "describing an elementwise operation");
  details_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, int64_t x, int64_t y) {
  words_ += fmt::format("reduce {} {} {}\n", static_cast<int>(op), x, y);
  CudnnDescriptor how = make_descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set_value(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  set_value(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finalize(how, "describing a reduction");
  CudnnDescriptor operation = make_descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_descriptor(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how.get());
  finalize(operation, "describing a reduction");
  details_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reshape(int64_t x, int64_t y) {
  words_ += fmt::format("reshape {} {}\n", x, y);
  CudnnDescriptor operation = make_descriptor(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_descriptor(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  set_descriptor(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  finalize(operation, "describing a reshape");
  operations_.push_back(std::move(operation));
}

CudnnDescriptor CudnnGraph::convolution_descriptor(const Convolution& how) {
  CudnnDescriptor descriptor = make_descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto axes = static_cast<int64_t>(how.strides.size());
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  set_value(descriptor, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, how.compute);
  set_value(descriptor, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, mode);
  set_value(descriptor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, axes);
  set_attribute(descriptor, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, how.dilations.data());
  set_attribute(descriptor, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes,
                how.strides.data());
  set_attribute(descriptor, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes,
                how.pads_begin.data());
  set_attribute(descriptor, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes,
                how.pads_end.data());
  finalize(descriptor, "describing a convolution");
  return descriptor;
}

void CudnnGraph::add_convolution(const Convolution& how, cudnnBackendDescriptorType_t type,
                                 cudnnBackendAttributeName_t descriptor, cudnnBackendAttributeName_t alpha,
                                 cudnnBackendAttributeName_t beta,
                                 const std::array<ConvolutionRole, 3>& roles) {
  words_ += fmt::format("convolution {} {} {} {} {} {} {} {} {}\n", static_cast<int>(type), roles[0].tensor,
                        roles[1].tensor, roles[2].tensor, static_cast<int>(how.compute),
                        fmt::join(how.strides, ","), fmt::join(how.dilations, ","),
                        fmt::join(how.pads_begin, ","), fmt::join(how.pads_end, ","));
  CudnnDescriptor convolution = convolution_descriptor(how), operation = make_descriptor(type);
  set_descriptor(operation, descriptor, convolution.get());
  for (const ConvolutionRole& role : roles) set_descriptor(operation, role.name, at(role.tensor));
  const float one = 1, zero = 0;
  set_value(operation, alpha, CUDNN_TYPE_FLOAT, one);
  set_value(operation, beta, CUDNN_TYPE_FLOAT, zero);
  finalize(operation, "describing a convolution");
  details_.push_back(std::move(convolution));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::convolution(const Convolution& how, int64_t x, int64_t w, int64_t y) {
  add_convolution(how, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                  {{{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y}}});
}
void CudnnGraph::convolution_input_gradient(const Convolution& how, int64_t dx, int64_t w, int64_t dy) {
  add_convolution(how, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                  {{{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy}}});
}
void CudnnGraph::convolution_weight_gradient(const Convolution& how, int64_t x, int64_t dw, int64_t dy) {
  add_convolution(how, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                  {{{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy}}});
}

}  // namespace genesis::cuda
