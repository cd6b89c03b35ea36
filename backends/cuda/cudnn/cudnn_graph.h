// A graph of operations that cuDNN fuses into a kernel, and the plan that it makes. Errors are thrown while the plan
// is made; running it only reports whether it was started.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cudnn/cudnn_descriptor.h"
#include "schema/core/dtype.h"

namespace genesis::cuda {

using Dims = std::array<int64_t, 4>;

// Returns dense, row-major strides.
Dims dense(const Dims& dims);

class CudnnPlan {
 public:
  // Returns false if cuDNN refused to start. `pointers` are {tensor, address}: device addresses, or host addresses
  // for scalars.
  bool run(cudaStream_t stream, const std::vector<std::pair<int64_t, void*>>& pointers,
           void* workspace) const;
  // Returns the milliseconds that the plan took when it was chosen; infinity if it was not measured.
  float ms() const { return ms_; }

 private:
  friend class CudnnGraph;
  static CudnnPlan restored(const std::string& text);
  std::string text() const;

  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor plan_;
  float ms_ = std::numeric_limits<float>::infinity();
};

class CudnnGraph {
 public:
  // Tensors are named by numbers. A virtual tensor is never in memory.
  int64_t tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  int64_t tensor(cudnnDataType_t type, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);
  int64_t virtual_tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  int64_t virtual_tensor(cudnnDataType_t type, const std::vector<int64_t>& dims,
                         const std::vector<int64_t>& strides);
  int64_t scalar(cudnnDataType_t type);

  // Sizes that are known only at run time: i32 tensors [batch, 1, 1, 1]; 0: the size of the description.
  struct Lengths {
    int64_t m = 0, n = 0, k = 0;
  };
  void matmul(int64_t a, int64_t b, int64_t c, const Lengths& lengths = {0, 0, 0});
  // y = mode(x) or mode(x, b), see cuDNN's modes; `t` is the predicate of a selection. 0: no such operand.
  void pointwise(cudnnPointwiseMode_t mode, int64_t x, int64_t b, int64_t y, int64_t t = 0,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void clamp(int64_t x, int64_t y, double upper);  // y = x within 0 and `upper`; NaN stays
  void reduce(cudnnReduceTensorOp_t op, int64_t x, int64_t y);
  void reshape(int64_t x, int64_t y);

  // One number for each spatial axis. The number of groups follows from the channels of x and of the weight.
  struct Convolution {
    std::vector<int64_t> strides, dilations, pads_begin, pads_end;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  };
  // y = x * w, dx from w and dy, and dw from x and dy.
  void convolution(const Convolution& how, int64_t x, int64_t w, int64_t y);
  void convolution_input_gradient(const Convolution& how, int64_t dx, int64_t w, int64_t dy);
  void convolution_weight_gradient(const Convolution& how, int64_t x, int64_t dw, int64_t dy);

  // Plans then give the same bits in every run and, with `full_precision`, do not round f32 operands.
  void require_exact_plans(bool full_precision) {
    in_order_ = true;
    full_precision_ = full_precision;
    words_ += full_precision ? "in order, full precision\n" : "in order\n";
  }

  // Returns the milliseconds of a plan, or infinity. `best` is the least so far.
  using Measure = std::function<float(const CudnnPlan&, float best)>;

  // Returns the first of cuDNN's plans that can be made and needs at most `workspace_limit` bytes, or with `measure` the fastest of
  // Plans of graphs with other notes are kept apart: a note says what else is timed with the plan.
  void note(const std::string& text) { words_ += "note " + text + "\n"; }
  // the first ones. Making a plan takes up to a second, so its text is kept in the process and in the cache folder. Throws Error.
  CudnnPlan plan(int64_t workspace_limit, const Measure& measure = {});

 private:
  int64_t add_tensor(cudnnDataType_t type, std::span<const int64_t> dims, std::span<const int64_t> strides,
                     bool is_virtual, bool by_value);
  CudnnDescriptor convolution_descriptor(const Convolution& how);
  // Adds the operation of three tensors under the names of their attributes.
  struct ConvolutionRole {
    cudnnBackendAttributeName_t name;
    int64_t tensor;
  };
  void add_convolution(const Convolution& how, cudnnBackendDescriptorType_t type,
                       cudnnBackendAttributeName_t descriptor, cudnnBackendAttributeName_t alpha,
                       cudnnBackendAttributeName_t beta, const std::array<ConvolutionRole, 3>& roles);
  cudnnBackendDescriptor_t at(int64_t tensor) const {
    return tensors_[static_cast<size_t>(tensor - 1)].get();
  }

  void add_pointwise(CudnnDescriptor how, int64_t x, int64_t b, int64_t y, int64_t t);
  std::vector<CudnnDescriptor> choices() const;
  bool may_use(const CudnnDescriptor& choice) const;
  CudnnPlan make_plan(int64_t workspace_limit, const Measure& measure) const;

  std::vector<CudnnDescriptor> tensors_, details_, operations_;
  bool in_order_ = false, full_precision_ = false;
  std::string words_;  // the same graph as text, and what its plans are timed with: the key of the cache
};

cudnnDataType_t cudnn_type(DType dtype);
size_t cudnn_version();

}  // namespace genesis::cuda
