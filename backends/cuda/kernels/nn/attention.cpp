// attention and attention_grad on CUDA: lists the kernel implementations, best first. Each is in a folder of
// backends/cuda/attention or backends/cuda/hopper; "tiles" comes last and takes the nodes that the others decline.
#include "backends/cuda/attention/attention_implementations.h"
#include "backends/cuda/hopper/implementations.h"

namespace genesis::cuda {
namespace {

void run_device_attention(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  run_tiles(shape, data_of(shape, c));
}

constexpr KernelImpl kTiles = {.name = "tiles",
                               .run = run_device_attention,
                               .can_run = can_run_shape<plain_attention_declines>,
                               .prepare = prepare_attention};
constexpr KernelImpl kGradientTiles = {.name = "tiles",
                                       .run = run_device_attention,
                                       .can_run = can_run_shape<plain_attention_declines>,
                                       .scratch_bytes = scratch_of_shape<plain_gradient_scratch>,
                                       .prepare = prepare_attention};

}  // namespace

std::span<const KernelImpl> general_gradient_implementations() {
  static const std::vector<KernelImpl> implementations = {range_gradient_implementation(),
                                                          fused_gradient_implementation(), kGradientTiles};
  return implementations;
}

std::span<const OpKernel> attention_kernels() {
  static const std::vector<OpKernel> ops = [] {
    std::vector<OpKernel> made = {{"attention", split_keys_implementation()},
                                  {"attention", long_heads_implementation()},
                                  {"attention", range_attention_implementation()},
                                  {"attention", fused_attention_implementation()},
                                  {"attention", kTiles},
                                  {"attention_grad", hopper_gradient_implementation()},
                                  {"attention_grad", long_heads_gradient_implementation()}};
    for (const KernelImpl& implementation : general_gradient_implementations())
      made.push_back({"attention_grad", implementation});
    return made;
  }();
  return ops;
}

}  // namespace genesis::cuda
