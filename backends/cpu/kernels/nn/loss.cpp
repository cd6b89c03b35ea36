// cross_entropy and its gradient, and bce. Rows are independent; the losses of rows, and the weights that are a mean's
// denominator, are added in row order, in f64.
#include "backends/cpu/loss/cross_entropy.h"

#include <cmath>

#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/simd/row_jobs.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cpu {

double mean_denominator(const CrossEntropyJob& job, int64_t rows) {
  if (job.divisor) return *job.divisor;
  if (job.has_probabilities()) return static_cast<double>(rows);
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row)
    if (const int64_t at = job.class_of(row); at >= 0) sum += job.weight_of(at);
  return sum;
}

namespace {

void put_real(const TensorView& out, int64_t i, double value) {
  if (out.dtype == DType::f64)
    out.as<double>()[i] = value;
  else
    out.as<float>()[i] = static_cast<float>(value);
}

}  // namespace

void write_loss(const TensorView& out, const CrossEntropyJob& job, Reduction reduction, int64_t rows) {
  if (reduction == Reduction::kNone) {
    for (int64_t i = 0; i < rows; ++i) put_real(out, i, job.row_loss[i]);
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < rows; ++i) sum += job.row_loss[i];
  put_real(out, 0, reduction == Reduction::kMean ? sum / mean_denominator(job, rows) : sum);
}

namespace {

// Converts the class weights to the dtype of the arithmetic, in scratch memory, and sums them.
void set_weights(CrossEntropyJob& job, const TensorView& weight, std::byte* memory) {
  job.weight = memory;
  job.weight_sum = 0;
  dispatch(weight.dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < job.classes; ++i) {
      const auto w = static_cast<double>(weight.as<T>()[i]);
      job.weight_sum += w;
      if (job.dtype == DType::f64)
        reinterpret_cast<double*>(memory)[i] = w;
      else
        reinterpret_cast<float*>(memory)[i] = static_cast<float>(w);
    }
  });
}

int64_t weight_bytes(int64_t classes, DType logits) {
  return (CheckedSize(classes) * static_cast<int64_t>(size_of(wide_dtype(logits)))).rounded_up(64).value();
}

template <class Op>
CrossEntropyJob job_of(const KernelContext& c, const Op& op, const TensorView* weight) {
  const TensorView &logits = c.input(0), &target = c.input(1);
  CrossEntropyJob job{.dtype = logits.dtype, .target_dtype = target.dtype};
  job.logits = logits.data;
  job.target = target.data;
  job.classes = logits.dim(-1);
  job.part = op.part;
  job.ignore_index = op.ignore_index;
  job.smoothing = op.label_smoothing;
  job.weight_sum = static_cast<double>(job.classes);
  job.fault = c.fault;
  if (weight) set_weights(job, *weight, c.scratch);
  return job;
}

int64_t rows_of(const TensorView& logits) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < logits.rank; ++i) rows *= logits.dim(i);
  return rows;
}

int64_t row_bytes(const CrossEntropyJob& job) {
  return job.classes * static_cast<int64_t>(size_of(job.dtype));
}

void cross_entropy(const KernelContext& c) {
  const auto& op = c.attributes<ops::CrossEntropy>();
  CrossEntropyJob job = job_of(c, op, c.num_inputs() > 2 ? &c.input(2) : nullptr);
  const int64_t rows = rows_of(c.input(0));
  job.row_loss =
      reinterpret_cast<double*>(c.scratch + (job.weight ? weight_bytes(job.classes, job.dtype) : 0));
  if (op.with_lse) job.lse = c.output(1).data;
  parallel_rows(rows, row_bytes(job),
                [&](int64_t first, int64_t last) { cross_entropy_rows(job, first, last); });
  write_loss(c.output(), job, op.reduction, rows);
}

void cross_entropy_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::CrossEntropyGrad>();
  if (c.output().numel() == 0) return;
  CrossEntropyJob job = job_of(c, op, c.num_inputs() > 4 ? &c.input(4) : nullptr);
  const int64_t rows = rows_of(c.input(0));
  job.lse = c.input(2).data;
  job.dy = c.input(3).data;
  job.dy_per_row = op.reduction == Reduction::kNone;
  if (op.reduction == Reduction::kMean) job.dy_factor = 1 / mean_denominator(job, rows);
  job.dlogits = c.output().data;
  job.stream = streams(c.output(), job.classes, job.logits);
  parallel_rows(rows, 2 * row_bytes(job),
                [&](int64_t first, int64_t last) { cross_entropy_gradient_rows(job, first, last); });
}

int64_t weight_scratch(const KernelQuery& query, size_t weight_input) {
  const TensorType& logits = query.inputs[0];
  const int64_t classes = logits.shape[logits.shape.rank() - 1].value();
  return query.inputs.size() > weight_input ? weight_bytes(classes, logits.dtype) : 0;
}

int64_t forward_scratch(const KernelQuery& query) {
  CheckedSize rows = 1;
  for (int i = 0; i + 1 < query.inputs[0].shape.rank(); ++i) rows *= query.inputs[0].shape[i].value();
  return (rows * sizeof(double) + weight_scratch(query, 2)).value();
}

int64_t backward_scratch(const KernelQuery& query) { return weight_scratch(query, 4); }

// Binary cross-entropy as in PyTorch: logarithms are clamped at -100.
template <class T>
void bce_range(const T* p, const T* t, T* y, int64_t first, int64_t last) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (int64_t i = first; i < last; ++i) {
    const A probability = static_cast<A>(p[i]), target = static_cast<A>(t[i]);
    const A log_p = std::log(probability), log_q = std::log1p(-probability);
    const A low = -100;
    y[i] = T((target - 1) * (log_q < low ? low : log_q) - target * (log_p < low ? low : log_p));
  }
}

void bce(const KernelContext& c) {
  const auto run = [&]<class T>(TypeTag<T>) {
    parallel_ranges(c.output().numel(), 2048, [&](int64_t first, int64_t last) {
      bce_range(c.input(0).as<T>(), c.input(1).as<T>(), c.output().as<T>(), first, last);
    });
  };
  const DType dtype = c.output().dtype;
  dtype == DType::f64 ? run(TypeTag<double>{}) : dispatch_rows(dtype, run);
}

constexpr OpKernel kKernels[] = {
    {"cross_entropy", {.name = "rows", .run = cross_entropy, .scratch_bytes = forward_scratch}},
    {"cross_entropy_grad", {.name = "rows", .run = cross_entropy_grad, .scratch_bytes = backward_scratch}},
    {"bce", {.name = "loops", .run = bce}}};

}  // namespace

std::span<const OpKernel> loss_kernels() { return kKernels; }

}  // namespace genesis::cpu
