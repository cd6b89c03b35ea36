// Cross-entropy in f64: plain loops, meant for checks rather than for speed.
#include <algorithm>
#include <cmath>

#include "backends/cpu/loss/cross_entropy.h"

namespace genesis::cpu {
namespace {

double log_sum_exp(const double* x, int64_t n) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, x[i]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  return max + std::log(sum);
}

// Returns the share of the row's loss that falls on class i: the smoothed, weighted target. `at` is the position of the target
// class.
double share_of(const CrossEntropyJob& job, int64_t row, int64_t at, int64_t i) {
  const double target = job.has_probabilities()
                            ? static_cast<const double*>(job.target)[row * job.classes + i]
                            : static_cast<double>(i == at);
  return job.weight_of(i) * (target * (1 - job.smoothing) + job.smooth_share());
}

}  // namespace

void cross_entropy_rows_f64(const CrossEntropyJob& job, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const double* x = static_cast<const double*>(job.logits) + row * job.classes;
    const int64_t at = job.has_probabilities() ? 0 : job.class_of(row), place = job.own().place_of(at);
    const double lse = log_sum_exp(x, job.classes);
    double loss = 0;
    for (int64_t i = 0; at >= 0 && i < job.classes; ++i)
      if (job.has_probabilities() || job.smoothing != 0 || i == place)
        loss += share_of(job, row, place, i) * (lse - x[i]);
    job.row_loss[row] = loss;
    if (job.lse) static_cast<double*>(job.lse)[row] = at < 0 ? 0 : lse;
  }
}

void cross_entropy_gradient_rows_f64(const CrossEntropyJob& job, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const double* x = static_cast<const double*>(job.logits) + row * job.classes;
    double* dx = static_cast<double*>(job.dlogits) + row * job.classes;
    const int64_t at = job.has_probabilities() ? 0 : job.class_of(row), place = job.own().place_of(at);
    const double g = job.dy_of(row), lse = static_cast<const double*>(job.lse)[row];
    double shares = 0;
    for (int64_t i = 0; i < job.classes; ++i) shares += share_of(job, row, place, i);
    if (job.part.is_part()) shares = 1;  // summed over all classes
    for (int64_t i = 0; i < job.classes; ++i)
      dx[i] = at < 0 ? 0 : g * (shares * std::exp(x[i] - lse) - share_of(job, row, place, i));
  }
}

}  // namespace genesis::cpu
