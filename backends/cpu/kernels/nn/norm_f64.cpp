// layer_norm and rms_norm in f64: plain loops, meant for checks rather than for speed.
#include <cmath>

#include "backends/cpu/kernels/nn/norm.h"

namespace genesis::cpu {
namespace {

struct Statistics {
  double mean, inverse;  // 1 / sqrt(variance + eps)
};

Statistics statistics_of(const NormJob& job, const double* x) {
  const auto n = static_cast<double>(job.n);
  double mean = 0, squares = 0;
  for (int64_t i = 0; job.center && i < job.n; ++i) mean += x[i] / n;
  for (int64_t i = 0; i < job.n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / std::sqrt(squares / n + job.eps)};
}

}  // namespace

void norm_rows_f64(const NormJob& job, int64_t first, int64_t last) {
  const auto* weight = static_cast<const double*>(job.weight);
  const auto* bias = static_cast<const double*>(job.bias);
  for (int64_t row = first; row < last; ++row) {
    const double* x = static_cast<const double*>(job.x) + row * job.n;
    double* y = static_cast<double*>(job.y) + row * job.n;
    const auto [mean, inverse] = statistics_of(job, x);
    for (int64_t i = 0; i < job.n; ++i)
      y[i] = (x[i] - mean) * inverse * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
  }
}

void norm_gradient_rows_f64(const NormJob& job, int64_t first, int64_t last, double* dweight, double* dbias) {
  const auto* weight = static_cast<const double*>(job.weight);
  const auto n = static_cast<double>(job.n);
  for (int64_t row = first; row < last; ++row) {
    const double* x = static_cast<const double*>(job.x) + row * job.n;
    const double* dy = static_cast<const double*>(job.dy) + row * job.n;
    double* dx = static_cast<double*>(job.y) + row * job.n;
    const auto [mean, inverse] = statistics_of(job, x);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < job.n; ++i) {
      const double normal = (x[i] - mean) * inverse, g = dy[i] * (weight ? weight[i] : 1);
      sum += g;
      dot += g * normal;
      if (dweight) dweight[i] += dy[i] * normal;
      if (dbias) dbias[i] += dy[i];
    }
    for (int64_t i = 0; i < job.n; ++i) {
      const double normal = (x[i] - mean) * inverse, g = dy[i] * (weight ? weight[i] : 1);
      dx[i] = inverse * (g - (job.center ? sum / n : 0) - normal * (dot / n));
    }
  }
}

}  // namespace genesis::cpu
