// Products with few rows and B stored [k, n] (gemm_dots.cpp handles [n, k]). The weights are split by columns and into slices of
// k, one task each. If there are several slices, their partial sums are kept in scratch memory and added in order.
#include "backends/cpu/gemm/gemm_implementations.h"

#include <algorithm>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/gemm/gemv/gemm_dots.h"
#include "backends/cpu/gemm/gemv/gemm_rows.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kTaskElements = 64 << 10;  // elements of A that one task packs
constexpr int64_t kMaxRows = 12;             // with more rows, packing pays off
constexpr int64_t kMaxSums = 4 << 10;        // sums of one task, on its stack: they fit half of L1
constexpr int64_t kTasksWanted = 32;         // k is sliced if there are fewer blocks of columns
constexpr int64_t kMinSlice = 128;           // steps of k

class GemvGemm final : public Gemm {
 public:
  explicit GemvGemm(const GemmProblem& problem);

  int64_t scratch_bytes() const override { return (CheckedSize(x_bytes_) + partial_bytes_).value(); }
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
           const void* addend) const override;

 private:
  struct Call {
    const float* x;
    const std::byte* b;
    std::byte* c;
    const void* bias;
    const void* addend;  // null = nothing is added
    float* partial;
  };

  void choose_blocks();
  void pack_a(const void* a, float* x) const;
  void compute_block(const Call& call, int64_t index) const;
  void add_slices(const Call& call, int64_t index) const;
  void finish(const Call& call, int64_t batch, int64_t column, int64_t n, const float* sums,
              int64_t stride) const;
  float* partial_at(const Call& call, int64_t slice, int64_t batch, int64_t column) const {
    return call.partial + (slice * problem_.batch + batch) * problem_.m * problem_.n + column;
  }
  int64_t batches_of_x() const { return problem_.stride_a == 0 ? 1 : problem_.batch; }

  GemmProblem problem_;
  GemvKernel kernel_;
  EpilogueFunction epilogue_;
  int64_t row_x_ = 0;                 // packed elements of x per row
  int64_t block_n_ = 0, blocks_ = 0;  // columns of C per task
  int64_t slice_k_ = 0, slices_ = 1;
  int64_t x_bytes_ = 0, partial_bytes_ = 0;
};

GemvGemm::GemvGemm(const GemmProblem& p) : Gemm("gemv"), problem_(p) {
  kernel_ = add_rows_kernel(p.a, p.b);
  epilogue_ = epilogue_function(DType::f32, p.c);
  row_x_ = kernel_.packed_row(p.k);
  choose_blocks();
  x_bytes_ = (CheckedSize(batches_of_x()) * padded_rows(p.m) * row_x_ * 4).rounded_up(kAlignment).value();
  if (slices_ > 1) partial_bytes_ = (CheckedSize(slices_) * p.batch * p.m * p.n * 4).value();
}

void GemvGemm::choose_blocks() {
  const GemmProblem& p = problem_;
  const int64_t unit = 64;  // columns; a multiple of whole cache lines
  block_n_ = std::min(kMaxSums / unit / padded_rows(p.m) * unit, kMaxBias);
  blocks_ = ceil_div(p.n, block_n_);
  slices_ = std::clamp<int64_t>(std::min(ceil_div(kTasksWanted, p.batch * blocks_), p.k / kMinSlice), 1,
                                kTasksWanted);
  slice_k_ = ceil_div(p.k, slices_);
}

void GemvGemm::run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
                    const void* addend) const {
  float* x = reinterpret_cast<float*>(scratch);
  pack_a(a, x);
  const Call call{x,    static_cast<const std::byte*>(b), static_cast<std::byte*>(c),
                  bias, addend_of(problem_, c, addend),   reinterpret_cast<float*>(scratch + x_bytes_)};
  const int64_t tasks = problem_.batch * blocks_;
  parallel_chunks(tasks * slices_, [&](int64_t index) { compute_block(call, index); });
  if (slices_ > 1) parallel_chunks(tasks, [&](int64_t index) { add_slices(call, index); });
}

void GemvGemm::pack_a(const void* a, float* x) const {
  const GemmProblem& p = problem_;
  const int64_t batch_bytes = p.stride_a * static_cast<int64_t>(size_of(p.a));
  parallel_ranges(batches_of_x(), std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, p.m * p.k)),
                  [&](int64_t first, int64_t last) {
                    for (int64_t batch = first; batch < last; ++batch) {
                      kernel_.pack({static_cast<const std::byte*>(a) + batch * batch_bytes,
                                    p.transpose_a ? 1 : p.lda, p.transpose_a ? p.lda : 1, p.m, p.k},
                                   x + batch * padded_rows(p.m) * row_x_);
                    }
                  });
}

void GemvGemm::compute_block(const Call& call, int64_t index) const {
  const GemmProblem& p = problem_;
  const int64_t slice = index % slices_, column = index / slices_ % blocks_ * block_n_,
                batch = index / slices_ / blocks_;
  const int64_t n = std::min(block_n_, p.n - column), k0 = slice * slice_k_, k = std::min(slice_k_, p.k - k0);
  const int64_t weights = batch * p.stride_b + k0 * p.ldb + column;
  alignas(kAlignment) float sums[kMaxSums];
  kernel_.run({.x = call.x + (p.stride_a == 0 ? 0 : batch) * padded_rows(p.m) * row_x_,
               .stride_x = row_x_,
               .first_k = k0,
               .m = p.m,
               .weights = call.b + weights * static_cast<int64_t>(size_of(p.b)),
               .stride_w = p.ldb,
               .n = n,
               .k = k,
               .sums = sums,
               .stride_sums = block_n_});
  if (slices_ == 1) return finish(call, batch, column, n, sums, block_n_);
  float* partial = partial_at(call, slice, batch, column);
  for (int64_t i = 0; i < p.m; ++i) std::copy_n(sums + i * block_n_, n, partial + i * p.n);
}

void GemvGemm::add_slices(const Call& call, int64_t index) const {
  const GemmProblem& p = problem_;
  const int64_t column = index % blocks_ * block_n_, batch = index / blocks_,
                n = std::min(block_n_, p.n - column);
  float* sums = partial_at(call, 0, batch, column);
  for (int64_t slice = 1; slice < slices_; ++slice) {
    const float* more = partial_at(call, slice, batch, column);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < n; ++j) sums[i * p.n + j] += more[i * p.n + j];
    }
  }
  finish(call, batch, column, n, sums, p.n);
}

void GemvGemm::finish(const Call& call, int64_t batch, int64_t column, int64_t n, const float* sums,
                       int64_t stride) const {
  const GemmProblem& p = problem_;
  alignas(kAlignment) float bias[kMaxBias];
  if (p.has_bias) convert_bias(call.bias, p.bias, column, n, DType::f32, bias);
  const int64_t element = static_cast<int64_t>(size_of(p.c));
  for (int64_t i = 0; i < p.m; ++i) {
    const int64_t at = (batch * p.stride_c + i * p.ldc + column) * element;
    epilogue_({sums + i * stride, p.has_bias ? bias : nullptr, call.c + at, n, p.alpha, p.activation,
               advance(call.addend, at)});
  }
}

std::string decline_columns(const GemmProblem& p) {
  return p.m > kMaxRows ? "more than " + std::to_string(kMaxRows) + " rows" : "";
}

}  // namespace

std::string decline_gemv(const GemmProblem& p) {
  if (p.batch * p.m * p.n == 0) return "the result is empty";
  if (std::string why = p.transpose_b ? decline_dots(p) : decline_columns(p); !why.empty()) return why;
  const GemvKernel kernel = p.transpose_b ? dot_rows_kernel(p.a, p.b) : add_rows_kernel(p.a, p.b);
  if (!kernel.pack) return "A is " + std::string(name_of(p.a));
  if (!kernel.run) return "B is " + std::string(name_of(p.b));
  if (!epilogue_function(DType::f32, p.c)) return "C is " + std::string(name_of(p.c));
  return {};
}

std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem) {
  return problem.transpose_b ? create_dots(problem) : std::make_shared<GemvGemm>(problem);
}

}  // namespace genesis::cpu
