// The implementation packed_bf16 (gemm_implementations.h): the packed product with the CPU's bf16 dot product instruction.
//
// This file also decides whether that instruction is worth using. Every CPU with AVX512_BF16 can execute it, but not every one
// does so fast: some issue one of them in the time of two f32 multiply-adds, or need two cycles for each, so that f32 is as fast
// or twice as fast. CPUID does not tell, so both register-tile kernels are timed once, on panels that stay in L1.
//
// Sums of bf16 pairs and of f32 round differently, so a CPU must come to the same decision every time. The measured value is a
// ratio of issue rates: 2, 1 or a half, hardly ever between, since there are few loads and stores beside 28 products. Both
// kernels run alternately in windows of some microseconds, and the fastest window of each counts. A disturbance (another process,
// a clock or vector units that wake up) only makes a window slower, so the decision could only change if all windows of one
// kernel were disturbed and one of the other was not. `--disable kernel:gemm.packed_bf16` selects f32 on every CPU.
#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>

#include "backends/cpu/gemm/gemm_implementations.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {
namespace {

constexpr double kMinGain = 1.4;         // between the gains that CPUs have: 2, or at most 1
constexpr int64_t kDepth = 64;           // steps; the panels take 12 KB
constexpr int kRuns = 8, kWindows = 24;  // windows of about 4 us each
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
