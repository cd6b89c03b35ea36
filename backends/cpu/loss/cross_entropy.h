// Plain data that the cross-entropy kernels pass to their row loops, fixed for a call.
#pragma once

#include <cstdint>

#include "backends/kernel.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cpu {

// A batch of rows of `classes` logits. weight and lse are f32 (f64 for f64); weight may be null.
struct CrossEntropyJob {
  DType dtype = DType::f32, target_dtype = DType::i64;
  const void* logits = nullptr;
  const void* target = nullptr;  // class indices [rows], or probabilities [rows, classes]
  const void* weight = nullptr;
  void* lse =
      nullptr;       // written by the forward pass, read by the gradient; null in a forward pass without one
  int64_t rows = 0;  // rows of a block, only for linear_cross_entropy
  int64_t classes = 1;
  ops::IndexRange part = {};  // the range of all classes that these logits cover
  int64_t ignore_index = -100;
  double smoothing = 0;
  double weight_sum = 1;  // sum of the class weights
  Fault* fault = nullptr;

  double* row_loss = nullptr;  // forward: the loss of each row, before the reduction

  void* dlogits = nullptr;   // gradient; may be the same memory as the logits
  const void* dy = nullptr;  // gradient of the loss: one number, or one per row
  bool dy_per_row = false;
  double dy_factor = 1;             // 1 / denominator of a mean
  const double* divisor = nullptr;  // replaces a mean's own denominator
  bool stream = false;

  bool has_probabilities() const { return is_float(target_dtype); }
  OwnIndices own() const { return part.of(classes); }
  double smooth_share() const { return smoothing / static_cast<double>(own().all); }
  double weight_sum_of_all() const { return part.is_part() ? static_cast<double>(own().all) : weight_sum; }

  // Returns the row's class among all classes, or -1 if the row does not count. A class out of range is reported and does not
  // count.
  int64_t class_of(int64_t row) const {
    const int64_t at = target_dtype == DType::i32 ? static_cast<const int32_t*>(target)[row]
                                                  : static_cast<const int64_t*>(target)[row];
    if (at == ignore_index) return -1;
    if (own().exists(at)) return at;
    if (fault) fault->report(at, own().all);
    return -1;
  }
  double weight_of(int64_t at) const {
    if (!weight) return 1;
    return dtype == DType::f64 ? static_cast<const double*>(weight)[at]
                               : static_cast<const float*>(weight)[at];
  }
  double dy_of(int64_t row) const {
    const int64_t at = dy_per_row ? row : 0;
    return dy_factor *
           (dtype == DType::f64 ? static_cast<const double*>(dy)[at] : static_cast<const float*>(dy)[at]);
  }
};

// Writes row_loss and lse of rows [first, last).
void cross_entropy_rows(const CrossEntropyJob& job, int64_t first, int64_t last);
// Writes dlogits of rows [first, last).
void cross_entropy_gradient_rows(const CrossEntropyJob& job, int64_t first, int64_t last);

// Returns the denominator of a mean: `divisor` if given, else the sum of the weights of the targets that count, or the number of
// rows if targets are probabilities.
double mean_denominator(const CrossEntropyJob& job, int64_t rows);
// Writes the reduced loss, or the losses of all rows, from job.row_loss. Rows are added in order.
void write_loss(const TensorView& out, const CrossEntropyJob& job, Reduction reduction, int64_t rows);

// cross_entropy_rows() and cross_entropy_gradient_rows() in f64, which have no SIMD code.
void cross_entropy_rows_f64(const CrossEntropyJob& job, int64_t first, int64_t last);
void cross_entropy_gradient_rows_f64(const CrossEntropyJob& job, int64_t first, int64_t last);

}  // namespace genesis::cpu
