// convolution and its gradients: own kernels for channels by themselves, cuDNN, or plain kernels.
#include "schema/ops/nn/convolution.h"

#include "backends/cuda/convolution/cudnn_convolution.h"
#include "backends/cuda/convolution/depthwise.h"
#include "backends/cuda/convolution/few_tiles.h"
#include "backends/cuda/convolution/one_pixel.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/hopper/convolution_tiles.h"

namespace genesis::cuda {
namespace {

KernelImpl plain_windows(void (*run)(const KernelContext&)) {
  return {.name = "plain", .run = run, .prepare = prepare_convolution};
}

KernelImpl plain_forward() { return plain_windows(run_plain_convolution); }

// Packed weights are for CPUs.
template <KernelImpl (*kMake)()>
KernelImpl unless_packed() {
  KernelImpl made = kMake();
  made.can_run = [](const KernelQuery& query) -> std::optional<std::string> {
    static const auto kDeclines = kMake().can_run;
    if (convolution_shape(query).is_packed) return "takes weights as a file has them";
    return kDeclines ? kDeclines(query) : std::nullopt;
  };
  return made;
}

}  // namespace

std::span<const OpKernel> convolution_kernels() {
  static const OpKernel kKernels[] = {
      {"convolution", unless_packed<depthwise_tiles_convolution>()},
      {"convolution", unless_packed<depthwise_convolution>()},
      {"convolution", unless_packed<one_pixel_convolution>()},
      {"convolution", unless_packed<few_tiles_convolution>()},
      {"convolution", unless_packed<pointwise_tiles_convolution>()},
      {"convolution", unless_packed<cudnn_convolution>()},
      {"convolution", unless_packed<plain_forward>()},
      {"convolution_transposed", depthwise_tiles_transposed()},
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
