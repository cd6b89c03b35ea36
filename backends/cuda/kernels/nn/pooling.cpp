// Pooling: a thread visits the elements of a window, or in a gradient the windows of an element.
#include "schema/ops/nn/pooling.h"

#include "backends/cuda/convolution/window_kernels.h"

namespace genesis::cuda {
namespace {

constexpr OpKernel kKernels[] = {
    {"max_pool", {.name = "windows", .run = run_max_pool, .prepare = prepare_pool}},
    {"max_pool_grad", {.name = "windows", .run = run_max_pool_grad, .prepare = prepare_pool}},
    {"average_pool", {.name = "windows", .run = run_average_pool, .prepare = prepare_pool}},
    {"average_pool_grad", {.name = "windows", .run = run_average_pool_grad, .prepare = prepare_pool}},
};

}  // namespace

std::span<const OpKernel> pooling_kernels() { return kKernels; }

}  // namespace genesis::cuda
