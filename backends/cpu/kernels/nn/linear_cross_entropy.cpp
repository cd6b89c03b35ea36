// cross_entropy(linear(x, weight), target) in chunks of rows. For each chunk: logits = x weight^T into scratch memory,
// the loss of its rows and, while they are in the cache, the gradient, which overwrites them; then dx = dlogits weight and, if
// requested, dweight += dlogits^T x. Chunks run one after the other, so that dweight is summed in one order. Rows whose target is
// ignored take no part: if there are any, the other rows are gathered chunk by chunk, so that the content of an ignored row
// affects nothing and its dx is zero.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "backends/cpu/loss/cross_entropy.h"
#include "backends/cpu/loss/logit_chunks.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

std::shared_ptr<const void> prepare_linear_cross_entropy(const KernelQuery& query) {
  return std::make_shared<LogitChunks>(cut_rows(query));
}

int64_t linear_cross_entropy_scratch(const KernelQuery& query) { return scratch_of(cut_rows(query)).total; }

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

template <class T>
void narrow(const float* from, int64_t n, void* to) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = T(from[i]);
}

// Computes the losses of the rows and overwrites the logits with their gradients. If x has another dtype, also writes these
// gradients in that dtype to `low`.
void finish_rows(const LogitChunks& chunks, const CrossEntropyJob& job, void* low) {
  const int64_t row_bytes = chunks.classes * bytes_of(chunks.wide);
  return parallel_rows(job.rows, 2 * row_bytes, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      CrossEntropyJob forward = job;
      forward.dlogits = nullptr;
      cross_entropy_rows(forward, row, row + 1);
      if (!chunks.gradients) continue;
      cross_entropy_gradient_rows(job, row, row + 1);
      const int64_t at = row * chunks.classes;
      const float* from = static_cast<const float*>(job.logits) + at;
      if (chunks.dtype == DType::bf16) narrow<bf16>(from, chunks.classes, static_cast<bf16*>(low) + at);
      if (chunks.dtype == DType::f16) narrow<f16>(from, chunks.classes, static_cast<f16*>(low) + at);
    }
  });
}

CrossEntropyJob job_of(const KernelContext& c, const LogitChunks& chunks) {
  const auto& op = c.attributes<ops::LinearCrossEntropy>();
  CrossEntropyJob job{.dtype = chunks.wide, .target_dtype = c.input(2).dtype};
  job.target = c.input(2).data;
  job.classes = chunks.classes;
  job.ignore_index = op.ignore_index;
  job.smoothing = op.label_smoothing;
  job.weight_sum = static_cast<double>(chunks.classes);
  if (c.num_inputs() > 3) job.divisor = c.input(3).as<double>();
  job.fault = c.fault;
  return job;
}

// The state of one run of the op.
struct LogitRun {
  const KernelContext& c;
  const LogitChunks& chunks = c.prepared<LogitChunks>();
  const ChunkScratch places = scratch_of(chunks);
  CrossEntropyJob job = job_of(c, chunks);
  int64_t* const counted = reinterpret_cast<int64_t*>(c.scratch + places.counted);
  int64_t count = 0;  // rows listed in `counted`: those whose target is not ignored

  bool all_count() const { return count == chunks.rows; }
};

void list_counted_rows(LogitRun& run) {
  for (int64_t row = 0; row < run.chunks.rows; ++row)
    if (run.job.class_of(row) >= 0) run.counted[run.count++] = row;
}

void clear(void* data, int64_t bytes) {
  parallel_ranges(bytes, kInlineBytes, [&](int64_t first, int64_t last) {
    std::memset(static_cast<std::byte*>(data) + first, 0, static_cast<size_t>(last - first));
  });
}

// to[i] = from[rows[i]], for rows of `bytes` each.
void gather_rows(const void* from, std::span<const int64_t> rows, int64_t bytes, std::byte* to) {
  parallel_rows(static_cast<int64_t>(rows.size()), bytes, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      std::memcpy(to + i * bytes, static_cast<const std::byte*>(from) + rows[static_cast<size_t>(i)] * bytes,
                  static_cast<size_t>(bytes));
  });
}

// to[rows[i]] = from[i]
void scatter_rows(const std::byte* from, std::span<const int64_t> rows, int64_t bytes, void* to) {
  parallel_rows(static_cast<int64_t>(rows.size()), bytes, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      std::memcpy(static_cast<std::byte*>(to) + rows[static_cast<size_t>(i)] * bytes, from + i * bytes,
                  static_cast<size_t>(bytes));
  });
}

// The operands of a chunk and the place of its dx: in place, or gathered in scratch memory.
struct ChunkOperands {
  const std::byte *x, *target;
  std::byte* dx;
};

ChunkOperands operands_in_place(const LogitRun& run, int64_t first) {
  const LogitChunks& chunks = run.chunks;
  const KernelContext& c = run.c;
  const int64_t feature = first * chunks.hidden;
  return {c.input(0).as<std::byte>() + feature * bytes_of(chunks.dtype),
          c.input(2).as<std::byte>() + first * bytes_of(run.job.target_dtype),
          chunks.gradients ? c.output(1).as<std::byte>() + feature * bytes_of(chunks.dx) : nullptr};
}

// Copies x and targets of these rows side by side. If the chunk has more rows than that, the rest of x is set to zero: old bytes
// could be NaN, which a product with zero gradients would spread.
ChunkOperands gather_operands(const LogitRun& run, std::span<const int64_t> rows, int64_t chunk_rows) {
  const int64_t x_bytes = run.chunks.hidden * bytes_of(run.chunks.dtype),
                count = static_cast<int64_t>(rows.size());
  std::byte *x = run.c.scratch + run.places.x, *target = run.c.scratch + run.places.target;
  gather_rows(run.c.input(0).data, rows, x_bytes, x);
  clear(x + count * x_bytes, (chunk_rows - count) * x_bytes);
  gather_rows(run.c.input(2).data, rows, bytes_of(run.job.target_dtype), target);
  return {x, target, run.c.scratch + run.places.dx};
}

void add_gradients(const LogitRun& run, const ChunkProducts& products, const ChunkOperands& at, int64_t first,
                   int64_t rows) {
  const LogitChunks& chunks = run.chunks;
  const KernelContext& c = run.c;
  std::byte *dlogits = c.scratch + (chunks.dtype == chunks.wide ? run.places.logits : run.places.low),
            *gemm = c.scratch + run.places.gemm;
  const int64_t row_bytes = chunks.classes * bytes_of(chunks.dtype);
  clear(dlogits + rows * row_bytes, (products.rows - rows) * row_bytes);
  products.dx->run(dlogits, c.input(1).data, at.dx, nullptr, gemm);
  if (!chunks.weight_gradient) return;
  const Gemm& dweight = first == 0 ? *products.starts_dweight : *products.adds_to_dweight;
  dweight.run(dlogits, at.x, c.output(2).data, nullptr, gemm);
}

// Runs one chunk: the rows that count from number `first` on, as many as `products` are made for.
void run_chunk(const LogitRun& run, const ChunkProducts& products, int64_t first) {
  const LogitChunks& chunks = run.chunks;
  const KernelContext& c = run.c;
  CrossEntropyJob job = run.job;
  job.rows = std::min(products.rows, run.count - first);
  const std::span<const int64_t> rows(run.counted + first, static_cast<size_t>(job.rows));
  const ChunkOperands at =
      run.all_count() ? operands_in_place(run, first) : gather_operands(run, rows, products.rows);
  std::byte* logits = c.scratch + run.places.logits;
  products.logits->run(at.x, c.input(1).data, logits, nullptr, c.scratch + run.places.gemm);

  job.logits = logits;
  job.lse = c.scratch + run.places.lse;
  job.dlogits = logits;
  job.target = at.target;
  job.row_loss += first;
  finish_rows(chunks, job, c.scratch + run.places.low);
  if (!chunks.gradients) return;
  add_gradients(run, products, at, first, job.rows);
  if (!run.all_count()) scatter_rows(at.dx, rows, chunks.hidden * bytes_of(chunks.dx), c.output(1).data);
}

// Zeros all outputs that no chunk will write: losses and gradients of ignored rows, and dweight if no row counts.
void clear_the_rest(const LogitRun& run) {
  clear(run.job.row_loss + run.count, (run.chunks.rows - run.count) * static_cast<int64_t>(sizeof(double)));
  if (run.chunks.gradients && !run.all_count()) clear(run.c.output(1).data, run.c.output(1).bytes());
  if (run.chunks.weight_gradient && run.count == 0) clear(run.c.output(2).data, run.c.output(2).bytes());
}

// In f16 the gradients of logits would underflow. So they are multiplied by this and not divided by the number of rows; both are
// made up for by scaling dx and dweight, which are f32.
constexpr double kF16Boost = 1024;

void scale_gradients(const KernelContext& c, double factor) {
  for (const TensorView& gradient : c.outputs.subspan(1)) {
    auto* values = gradient.as<float>();
    parallel_rows(gradient.numel(), 4, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) values[k] *= static_cast<float>(factor);
    });
  }
}

void linear_cross_entropy(const KernelContext& c) {
  const auto& op = c.attributes<ops::LinearCrossEntropy>();
  LogitRun run{c};
  const LogitChunks& chunks = run.chunks;
  const double one = 1;
  const float one_f32 = 1;
  run.job.row_loss = reinterpret_cast<double*>(c.scratch + run.places.row_loss);
  run.job.dy = chunks.wide == DType::f64 ? static_cast<const void*>(&one) : &one_f32;
  if (op.reduction == Reduction::kMean) run.job.dy_factor = 1 / mean_denominator(run.job, chunks.rows);
  const double dy_factor = run.job.dy_factor;
  const bool boosted = chunks.gradients && chunks.dtype == DType::f16;
  if (boosted) run.job.dy_factor = kF16Boost;
  list_counted_rows(run);
  clear_the_rest(run);
  for (int64_t first = 0; first < run.count;) {
    const ChunkProducts& products = chunks.next(run.count - first, run.all_count());
    run_chunk(run, products, first);
    first += products.rows;
  }
  // If no row counts, the factor is infinite, and the gradients are zeros already.
  if (boosted && std::isfinite(dy_factor)) scale_gradients(c, dy_factor / kF16Boost);
  write_loss(c.output(), run.job, op.reduction, chunks.rows);
}

constexpr OpKernel kKernels[] = {{"linear_cross_entropy",
                                  {.name = "row_blocks",
                                   .run = linear_cross_entropy,
                                   .scratch_bytes = linear_cross_entropy_scratch,
                                   .prepare = prepare_linear_cross_entropy}}};

}  // namespace

std::span<const OpKernel> linear_cross_entropy_kernels() { return kKernels; }

}  // namespace genesis::cpu
