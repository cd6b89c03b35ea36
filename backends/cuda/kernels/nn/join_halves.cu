// join_halves: restores an f32 from its halves, for consumers that read a weight in f32 which is trained in bf16. One
// pass over memory: a thread has four elements, 8 bytes of each half and 16 of the result.
#include "backends/cuda/device/packs.h"
#include "schema/core/halves.h"

namespace genesis::cuda {
namespace {

template <int N>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const uint16_t* upper, const uint16_t* lower, uint32_t* y, int64_t packs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const auto high = reinterpret_cast<const Pack<uint16_t, N>*>(upper)[i];
  const auto low = reinterpret_cast<const Pack<uint16_t, N>*>(lower)[i];
  Pack<uint32_t, N> whole;
#pragma unroll
  for (int j = 0; j < N; ++j) whole.at[j] = join_halves({high.at[j], low.at[j]});
  reinterpret_cast<Pack<uint32_t, N>*>(y)[i] = whole;
}

void run_join_halves(const KernelContext& c) {
  const int64_t n = c.output().numel();
  with_packs<uint32_t>(c, n, [&](auto pack) {
    constexpr int kPack = decltype(pack)::value;
    start(c, join_kernel<kPack>, blocks_for(n / kPack, kThreads), kThreads, 0,
          c.input(0).as<const uint16_t>(), c.input(1).as<const uint16_t>(), c.output().as<uint32_t>(),
          n / kPack);
  });
}

constexpr OpKernel kOps[] = {{"join_halves", {.name = "one_pass", .run = run_join_halves}}};

}  // namespace

std::span<const OpKernel> join_halves_kernels() { return kOps; }

}  // namespace genesis::cuda
