// The way packed_bf16 (gemm_ways.h): the packed product with the bf16 dot product of the CPU.
//
// Whether the bf16 dot product of the CPU at hand is worth its instruction. Every chip that has it can do it, but not all do it
// fast: some issue one where they issue two f32 multiply-adds, or take two steps for each, so that f32 is as fast or twice as
// fast. CPUID does not say, hence both register-tile kernels are timed once, on panels that stay in L1.
//
// Sums in bf16 pairs and in f32 round differently, so a chip must come to the same answer every time. What is measured is a
// ratio of issue rates: 2, 1 or a half, hardly ever between, since loads and stores are few beside 28 products. Both kernels take
// turns in windows of some microseconds, of each the fastest counts, and what disturbs a window (another process, a clock or
// vector units that wake up) only makes it slower: the answer would be another one only where all windows of one kernel were
// disturbed and one of the other was not. `--disable kernel:gemm.packed_bf16` takes f32 whatever the chip does.
#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_ways.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {
namespace {

constexpr double kMinGain = 1.4;         // between those that chips have: 2, or 1 and less
constexpr int64_t kDepth = 64;           // steps: panels of 12 KB
constexpr int kRuns = 8, kWindows = 24;  // of some 4 us each
constexpr int64_t kMaxWidthA = 16, kMaxWidthB = 32, kMaxRows = 14;

struct Tile {
  alignas(64) std::array<float, kDepth * kMaxWidthA> a{};
  alignas(64) std::array<float, kDepth * kMaxWidthB> b{};
  alignas(64) std::array<float, kMaxRows * kMaxWidthB> c{};
};

double seconds_of_window(const MicroKernel& kernel, Tile& tile) {
  const auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run)
    kernel.run(kDepth, tile.a.data(), tile.b.data(), tile.c.data(), kernel.nr, run > 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double products_of_step(const MicroKernel& kernel) {
  return static_cast<double>(kernel.mr * kernel.nr * kernel.k_per_step());
}

bool fits(const MicroKernel& kernel) {
  return kernel.mr <= kMaxRows && kernel.nr <= kMaxWidthB && kernel.width_a <= kMaxWidthA;
}

double measure() {
  const MicroKernel f32 = micro_kernel_f32(), bf16 = micro_kernel_bf16();
  if (bf16.mr == 0 || !fits(f32) || !fits(bf16)) return 0;
  Tile tile;
  double of_f32 = std::numeric_limits<double>::infinity(), of_bf16 = of_f32;
  for (int window = 0; window < kWindows; ++window) {
    of_f32 = std::min(of_f32, seconds_of_window(f32, tile));
    of_bf16 = std::min(of_bf16, seconds_of_window(bf16, tile));
  }
  return of_f32 / products_of_step(f32) * products_of_step(bf16) / of_bf16;
}

}  // namespace

double bf16_dot_gain() {
  static const double gain = measure();
  return gain;
}

std::string decline_packed_bf16(const GemmProblem& problem) {
  const MicroKernel kernel = micro_kernel_bf16();
  if (kernel.mr == 0) return "this CPU has no AVX512_BF16";
  std::string why = decline_kernel(problem, kernel);
  if (why.empty() && bf16_dot_gain() < kMinGain)
    why = "this CPU's bf16 dot product is no faster than f32 multiply-adds";
  return why;
}

std::shared_ptr<const Gemm> create_packed_bf16(const GemmProblem& problem) {
  return create_packed_with("packed_bf16", problem, micro_kernel_bf16());
}

}  // namespace genesis::cpu
