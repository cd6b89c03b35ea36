// quantize_rows: rounds rows to 8 bits as they are appended to a KV cache.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/ops/nn/quantized_cache.h"

namespace genesis::cpu {
namespace {

constexpr float kMaxQuant = 127;

// Rounds to the nearest integer, ties to even, for magnitudes below 2^22. Compilers vectorize this form.
float rounded(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the sum has no bits left for the fraction
  return (x + kMagic) - kMagic;
}

// Writes the quants of a row and returns its scale.
template <class T>
float quantize_row(const T* x, int64_t n, int8_t* quants) {
  float most = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const float magnitude = std::abs(static_cast<float>(x[i]));
    is_finite &= magnitude <= std::numeric_limits<float>::max();
    most = magnitude > most ? magnitude : most;
  }
  if (!is_finite) most = 0;
  const float scale = most / kMaxQuant;
  if (scale == 0) {
    std::fill(quants, quants + n, int8_t{0});
  } else {
    // A scale may be a denormal number that was rounded down, so that quants need a limit.
    for (int64_t i = 0; i < n; ++i)
      quants[i] =
          static_cast<int8_t>(std::clamp(rounded(static_cast<float>(x[i]) / scale), -kMaxQuant, kMaxQuant));
  }
  return is_finite ? scale : std::numeric_limits<float>::quiet_NaN();
}

template <class T>
void quantize_as(const KernelContext& c) {
  const int64_t n = c.input(0).dim(-1);
  const T* x = c.input(0).as<const T>();
  auto* quants = c.output(0).as<int8_t>();
  auto* scales = c.output(1).as<float>();
  parallel_rows(c.output(1).numel(), n * static_cast<int64_t>(sizeof(T)), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) scales[row] = quantize_row(x + row * n, n, quants + row * n);
  });
}

void run_quantize_rows(const KernelContext& c) {
  switch (c.input(0).dtype) {
    case DType::f64:
      return quantize_as<double>(c);
    case DType::f16:
      return quantize_as<f16>(c);
    case DType::bf16:
      return quantize_as<bf16>(c);
    default:
      return quantize_as<float>(c);
  }
}

constexpr OpKernel kKernels[] = {{"quantize_rows", {.name = "rows", .run = run_quantize_rows}}};

}  // namespace

std::span<const OpKernel> quantize_rows_kernels() { return kKernels; }

}  // namespace genesis::cpu
