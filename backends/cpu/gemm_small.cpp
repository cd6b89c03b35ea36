// Products with few rows. The weights are cut into blocks of rows (B stored [n, k]) or of columns and slices
// of k (B stored [k, n]), one task each; slices leave partial sums in scratch, which are added in order.
#include "backends/cpu/gemm_small.h"

#include <algorithm>

#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/gemm_rows.h"
#include "backends/cpu/gemm_util.h"
#include "backends/cpu/parallel.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kMaxRows = 24;          // above, packing pays
constexpr int64_t kTaskBytes = 64 << 10;  // of weights
constexpr int64_t kMaxDotColumns = 512;   // rows of the weights in one task
constexpr int64_t kTasksWanted = 32;      // where slices of k are needed to get there
constexpr int64_t kMinSlice = 128;        // steps of k

class SmallGemm final : public Gemm {
 public:
  explicit SmallGemm(const GemmProblem& problem);

  int64_t scratch_bytes() const override { return x_bytes_ + partial_bytes_; }
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch) const override;

 private:
  struct Call {
    const float* x;
    const std::byte* b;
    std::byte* c;
    const void* bias;
    float* partial;
  };

  void convert_a(const void* a, float* x) const;
  void compute_block(const Call& call, int64_t index) const;
  void add_slices(const Call& call, int64_t index) const;
  void finish(const Call& call, int64_t batch, int64_t column, int64_t n, const float* sums,
              int64_t stride) const;
  float* partial_at(const Call& call, int64_t slice, int64_t batch, int64_t column) const {
    return call.partial + (slice * problem_.batch + batch) * problem_.m * problem_.n + column;
  }

  GemmProblem problem_;
  FewRowsFunction kernel_;
  EpilogueFunction epilogue_;
  bool convert_ = false;                       // A to f32 rows in scratch
  int64_t stride_x_ = 0, batch_stride_x_ = 0;  // of A as f32 rows
  int64_t block_n_ = 0, blocks_ = 0;           // columns of C in one task
  int64_t slice_k_ = 0, slices_ = 1;
  int64_t x_bytes_ = 0, partial_bytes_ = 0;
};

SmallGemm::SmallGemm(const GemmProblem& p) : Gemm("few rows"), problem_(p) {
  kernel_ = p.transpose_b ? dot_rows_function(p.b) : add_rows_function(p.b);
  epilogue_ = epilogue_function(DType::f32, p.c);
  convert_ = p.transpose_a || p.a != DType::f32;
  stride_x_ = convert_ ? p.k : p.lda;
  batch_stride_x_ = p.stride_a == 0 ? 0 : convert_ ? p.m * p.k : p.stride_a;
  if (convert_) x_bytes_ = round_up((p.stride_a == 0 ? 1 : p.batch) * p.m * p.k * 4, kAlignment);
  slice_k_ = p.k;
  if (p.transpose_b) {
    const int64_t row_bytes = std::max<int64_t>(1, p.k * static_cast<int64_t>(size_of(p.b)));
    block_n_ = std::clamp<int64_t>(round_up(kTaskBytes / row_bytes, 4), 4, kMaxDotColumns);
  } else {
    block_n_ = kMaxAddColumns;
    const int64_t wanted = ceil_div(kTasksWanted, p.batch * ceil_div(p.n, block_n_));
    slices_ = std::clamp<int64_t>(std::min(wanted, p.k / kMinSlice), 1, kTasksWanted);
    slice_k_ = ceil_div(p.k, slices_);
  }
  blocks_ = ceil_div(p.n, block_n_);
  if (slices_ > 1) partial_bytes_ = slices_ * p.batch * p.m * p.n * 4;
}

void SmallGemm::run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch) const {
  float* x = reinterpret_cast<float*>(scratch);
  if (convert_) convert_a(a, x);
  const Call call{convert_ ? x : static_cast<const float*>(a), static_cast<const std::byte*>(b),
                  static_cast<std::byte*>(c), bias, reinterpret_cast<float*>(scratch + x_bytes_)};
  const int64_t tasks = problem_.batch * blocks_;
  parallel_pieces(tasks * slices_, [&](int64_t index) { compute_block(call, index); });
  if (slices_ > 1) parallel_pieces(tasks, [&](int64_t index) { add_slices(call, index); });
}

void SmallGemm::convert_a(const void* a, float* x) const {
  const GemmProblem& p = problem_;
  const int64_t step = p.transpose_a ? p.lda : 1, row = p.transpose_a ? 1 : p.lda;
  dispatch(p.a, [&](auto tag) {
    const auto* from = static_cast<const typename decltype(tag)::type*>(a);
    for (int64_t batch = 0; batch < (p.stride_a == 0 ? 1 : p.batch); ++batch) {
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t k = 0; k < p.k; ++k)
          *x++ = static_cast<float>(from[batch * p.stride_a + i * row + k * step]);
      }
    }
  });
}

void SmallGemm::compute_block(const Call& call, int64_t index) const {
  const GemmProblem& p = problem_;
  const int64_t slice = index % slices_, column = index / slices_ % blocks_ * block_n_,
                batch = index / slices_ / blocks_;
  const int64_t n = std::min(block_n_, p.n - column), k0 = slice * slice_k_;
  const int64_t weights = batch * p.stride_b + (p.transpose_b ? column * p.ldb : k0 * p.ldb + column);
  alignas(kAlignment) float on_stack[kMaxRows * std::max(kMaxDotColumns, kMaxAddColumns)];
  const bool partial = slices_ > 1;
  float* sums = partial ? partial_at(call, slice, batch, column) : on_stack;
  const int64_t stride = partial ? p.n : block_n_;
  kernel_({call.x + batch * batch_stride_x_ + k0, stride_x_, p.m,
           call.b + weights * static_cast<int64_t>(size_of(p.b)), p.ldb, n,
           std::clamp<int64_t>(p.k - k0, 0, slice_k_), sums, stride});
  if (!partial) finish(call, batch, column, n, sums, stride);
}

void SmallGemm::add_slices(const Call& call, int64_t index) const {
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

void SmallGemm::finish(const Call& call, int64_t batch, int64_t column, int64_t n, const float* sums,
                       int64_t stride) const {
  const GemmProblem& p = problem_;
  alignas(kAlignment) float bias[kMaxBias];
  if (p.has_bias) convert_bias(call.bias, p.bias, column, n, DType::f32, bias);
  const int64_t element = static_cast<int64_t>(size_of(p.c));
  for (int64_t i = 0; i < p.m; ++i) {
    epilogue_({sums + i * stride, p.has_bias ? bias : nullptr,
               call.c + (batch * p.stride_c + i * p.ldc + column) * element, n, p.alpha, p.activation,
               p.accumulate});
  }
}

}  // namespace

std::string decline_small(const GemmProblem& p) {
  if (p.batch * p.m * p.n == 0) return "the result is empty";
  if (p.m > kMaxRows) return "more than " + std::to_string(kMaxRows) + " rows";
  if (!is_float(p.a) || p.a == DType::f64) return "A is " + std::string(name_of(p.a));
  if (!dot_rows_function(p.b)) return "B is " + std::string(name_of(p.b));
  if (!epilogue_function(DType::f32, p.c)) return "C is " + std::string(name_of(p.c));
  return {};
}

std::shared_ptr<const Gemm> create_small(const GemmProblem& problem) {
  return std::make_shared<SmallGemm>(problem);
}

}  // namespace genesis::cpu
