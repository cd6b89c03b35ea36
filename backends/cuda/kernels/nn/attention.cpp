// attention and attention_grad on CUDA: lists the kernel implementations, best first. Each is in a folder of
// backends/cuda/attention or backends/cuda/hopper; "tiles" comes last and takes the nodes that the others decline.
#include "backends/cuda/attention/attention_ways.h"
#include "backends/cuda/hopper/ways.h"

namespace genesis::cuda {
namespace {

void run(const KernelContext& c) {
  const auto& shape = c.prepared<AttentionShape>();
  run_tiles(shape, data_of(shape, c));
}

constexpr KernelImpl kTiles = {.name = "tiles",
                               .run = run,
                               .can_run = can_run_shape<plain_attention_declines>,
                               .prepare = prepare_attention};
constexpr KernelImpl kGradientTiles = {.name = "tiles",
                                       .run = run,
                                       .can_run = can_run_shape<plain_attention_declines>,
                                       .scratch_bytes = scratch_of_shape<plain_gradient_scratch>,
                                       .prepare = prepare_attention};

}  // namespace

std::span<const KernelImpl> general_gradient_ways() {
  static const std::vector<KernelImpl> ways = {range_gradient_way(), fused_gradient_way(), kGradientTiles};
  return ways;
}

std::span<const OpKernel> attention_kernels() {
  static const std::vector<OpKernel> ops = [] {
    std::vector<OpKernel> made = {{"attention", split_keys_way()},
                                  {"attention", range_attention_way()},
                                  {"attention", fused_attention_way()},
                                  {"attention", kTiles},
                                  {"attention_grad", hopper_gradient_way()}};
    for (const KernelImpl& way : general_gradient_ways()) made.push_back({"attention_grad", way});
    return made;
  }();
  return ops;
}

}  // namespace genesis::cuda
