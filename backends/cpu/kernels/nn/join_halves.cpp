// join_halves: makes an f32 from its two halves, for ops that read in f32 a weight that is trained in bf16.
#include <bit>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/core/halves.h"

namespace genesis::cpu {
namespace {

void run_join_halves(const KernelContext& c) {
  const auto *upper = c.input(0).as<const uint16_t>(), *lower = c.input(1).as<const uint16_t>();
  auto* y = c.output().as<float>();
  parallel_rows(c.output().numel(), 2 * sizeof(float), [=](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) y[i] = std::bit_cast<float>(join_halves({upper[i], lower[i]}));
  });
}

constexpr OpKernel kKernels[] = {{"join_halves", {.name = "one_pass", .run = run_join_halves}}};

}  // namespace

std::span<const OpKernel> join_halves_kernels() { return kKernels; }

}  // namespace genesis::cpu
