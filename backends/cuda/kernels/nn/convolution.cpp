// convolution and its gradients: own kernels for channels by themselves, cuDNN, or plain kernels.
#include "schema/ops/nn/convolution.h"

#include "backends/cuda/convolution/cudnn_convolution.h"
#include "backends/cuda/convolution/depthwise.h"
#include "backends/cuda/convolution/window_kernels.h"

namespace genesis::cuda {
namespace {

KernelImpl plain_windows(void (*run)(const KernelContext&)) {
  return {.name = "plain", .run = run, .prepare = prepare_convolution};
}

}  // namespace

std::span<const OpKernel> convolution_kernels() {
  static const OpKernel kKernels[] = {
      {"convolution", depthwise_convolution()},
      {"convolution", cudnn_convolution()},
      {"convolution", plain_windows(run_plain_convolution)},
      {"convolution_transposed", depthwise_transposed()},
      {"convolution_transposed", cudnn_transposed()},
      {"convolution_transposed", plain_windows(run_plain_transposed)},
      {"convolution_weight_gradient", depthwise_weight_gradient()},
      {"convolution_weight_gradient", cudnn_weight_gradient()},
      {"convolution_weight_gradient", plain_windows(run_plain_weight_gradient)},
  };
  return kKernels;
}

}  // namespace genesis::cuda
