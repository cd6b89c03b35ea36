// Products of few rows are bound by memory: each core should read few streams, each long enough for the hardware prefetcher, and
// no core should wait for another. Measured on 4 cores, six streams per core that continue from chunk to chunk are 1.2 times as
// fast as six streams in every block of 64 KB, and twice as fast as six adjacent rows.
#include "backends/cpu/gemm/gemv/gemm_dots.h"

#include <tbb/task_arena.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/parallel/parallel_runs.h"
#include "schema/core/float16.h"

namespace genesis::cpu {
namespace {

// Bytes of weights per chunk. Between two chunks a core reads other memory and its streams begin anew: with chunks of 32 KB,
// weights are read at 0.6 of the speed that chunks of 512 KB reach. So a thread gets a few large chunks. Results do not depend on
// the chunks.
constexpr int64_t kChunkBytes = 32 << 10, kMaxChunkBytes = 512 << 10;
constexpr int64_t kChunksOfThread = 4;
constexpr int64_t kMaxSums = 4 << 10;     // sums of a chunk, on the stack: half of L1
constexpr int64_t kMaxColumns = 1 << 10;  // columns of a chunk
// Most rows of x at a time. With more of them, a chunk would have too few columns to read in long streams.
constexpr int64_t kMaxRowsAtOnce = 64;

// Returns the number of rows above which packing pays off. It is lower the fewer bytes a weight has and the shorter a sum is.
int64_t max_rows(const GemmProblem& p) {
  if (p.k < 256) return p.k < 128 ? 8 : 12;
  return p.b == DType::f32 ? 40 : 16;
}

int64_t row_bytes(const GemmProblem& p) {
  if (p.b_format != WeightFormat::kPlain)
    return p.k / kQuantBlock * (quant_block_bytes(p.b_format) + static_cast<int64_t>(sizeof(f16)));
  return std::max<int64_t>(1, p.k * static_cast<int64_t>(size_of(p.b)));
}

class DotGemm final : public Gemm {
 public:
  explicit DotGemm(const GemmProblem& problem) : Gemm("gemv"), dots_({&problem, 1}) {}
  int64_t scratch_bytes() const override { return dots_.scratch_bytes(); }
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
           const void* addend) const override {
    const Dots::Operands operands{b, bias, c, addend};
    dots_.run(a, {&operands, 1}, scratch);
  }

 private:
  Dots dots_;
};

}  // namespace

Dots::Dots(std::span<const GemmProblem> problems, Combine combine)
    : Dots(problems, combine, dot_rows_kernel(problems[0].a, problems[0].b)) {}

Dots::Dots(std::span<const GemmProblem> problems, Combine combine, const GemvKernel& kernel)
    : x_(problems[0]), combine_(combine), kernel_(kernel), row_x_(kernel_.packed_row(x_.k)) {
  for (const GemmProblem& problem : problems) {
    members_.push_back(member_of(problem, chunks_));
    chunks_ += problem.batch * members_.back().chunks;
    bytes_ += problem.batch * problem.n * row_bytes(problem);
  }
  if (combine_) chunks_ = members_[1].first;  // chunks of the first include those of the second
}

Dots::Member Dots::member_of(const GemmProblem& p, int64_t first) const {
  Member member{p, epilogue_function(DType::f32, p.c), p.n / kernel_.streams, 0, 1, first};
  const int64_t all = p.batch * p.n * row_bytes(p),
                wanted = kChunksOfThread * tbb::this_task_arena::max_concurrency(),
                bytes = std::clamp(all / wanted, kChunkBytes, kMaxChunkBytes),
                most = std::min(kMaxColumns, kMaxSums / padded_rows(rows_at_once())) / kernel_.streams;
  member.chunk_rows = std::clamp<int64_t>(bytes / row_bytes(p) / kernel_.streams, 1, most);
  member.chunks = std::max<int64_t>(1, ceil_div(member.stream_rows, member.chunk_rows));
  return member;
}

int64_t Dots::rows_at_once() const { return std::min(x_.m, kMaxRowsAtOnce); }

int64_t Dots::scratch_bytes() const {
  return (CheckedSize(batches_of_x()) * x_floats() * 4).rounded_up(kAlignment).value();
}

void Dots::run(const void* x, std::span<const Operands> operands, std::byte* scratch) const {
  float* packed = reinterpret_cast<float*>(scratch);
  for (Rows rows = {0, 0}; rows.first < x_.m; rows.first += rows.count) {
    rows.count = std::min(rows_at_once(), x_.m - rows.first);
    pack(x, rows, packed);
    const auto work = [&](int64_t chunk) { compute(packed, rows, operands, chunk); };
    if (bytes_ * ceil_div(rows.count, 4) > kInlineBytes)
      parallel_runs(chunks_, work);
    else
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) work(chunk);
  }
}

void Dots::pack(const void* x, const Rows& rows, float* packed) const {
  const GemmProblem& p = x_;
  const int64_t row_step = p.transpose_a ? 1 : p.lda;
  const int64_t grain = std::max<int64_t>(1, kInlineBytes / std::max<int64_t>(1, rows.count * p.k));
  parallel_ranges(batches_of_x(), grain, [&](int64_t first, int64_t last) {
    for (int64_t batch = first; batch < last; ++batch)
      kernel_.pack({advance(x, batch * p.stride_a + rows.first * row_step, p.a), row_step,
                    p.transpose_a ? p.lda : 1, rows.count, p.k},
                   packed + batch * x_floats());
  });
}

void Dots::compute(const float* x, const Rows& rows, std::span<const Operands> operands,
                   int64_t chunk) const {
  size_t at = combine_ ? 0 : members_.size() - 1;
  while (members_[at].first > chunk) --at;
  const Member& member = members_[at];
  const GemmProblem& p = member.problem;
  const int64_t batch = (chunk - member.first) / member.chunks,
                of_batch = (chunk - member.first) % member.chunks;
  if (p.stride_a != 0) x += batch * x_floats();
  const int64_t in_c = batch * p.stride_c + rows.first * p.ldc;
  Operands matrix[2];
  for (size_t i = 0; i < (combine_ ? 2 : 1); ++i)
    matrix[i] = {advance(operands[at + i].weights, batch * p.stride_b, p.b), operands[at + i].bias,
                 const_cast<std::byte*>(advance(operands[at + i].c, in_c, p.c)),
                 advance(addend_of(p, operands[at + i].c, operands[at + i].addend), in_c, p.c),
                 operands[at + i].scales};
  const int64_t first = of_batch * member.chunk_rows,
                count = std::min(member.chunk_rows, member.stream_rows - first);
  if (count > 0)
    compute_columns(at, x, rows.count, matrix, {first, count, kernel_.streams, member.stream_rows});
  const int64_t in_streams = kernel_.streams * member.stream_rows;
  if (of_batch == member.chunks - 1 && in_streams < p.n)
    compute_columns(at, x, rows.count, matrix, {in_streams, p.n - in_streams, 1, 0});
}

void Dots::sum_up(const Member& member, const float* x, int64_t rows, const Operands& operands,
                  const Columns& columns, float* sums) const {
  const GemmProblem& p = member.problem;
  kernel_.run({.x = x,
               .stride_x = row_x_,
               .m = rows,
               .weights = advance(operands.weights, columns.first * p.ldb, p.b),
               .scales = advance(operands.scales, columns.first * (p.k / kQuantBlock), DType::f16),
               .stride_w = p.ldb,
               .n = columns.count,
               .k = p.k,
               .streams = columns.streams,
               .apart = columns.apart,
               .sums = sums,
               .stride_sums = columns.streams * columns.count});
}

namespace {

// Calls body(column of C, position in the chunk) for each stream.
template <class Columns, class Body>
void each_stream(const Columns& columns, const Body& body) {
  for (int64_t s = 0; s < columns.streams; ++s) body(columns.first + s * columns.apart, s * columns.count);
}

}  // namespace

// Computes the columns of a chunk. They lie side by side in sums, bias and results, and are copied to their places in C.
void Dots::compute_columns(size_t at, const float* x, int64_t rows, const Operands* operands,
                           const Columns& columns) const {
  alignas(kAlignment) float sums[2][kMaxSums], bias[2][kMaxColumns], results[2][kMaxColumns];
  const size_t products = combine_ ? 2 : 1;
  for (size_t i = 0; i < products; ++i) {
    const Member& member = members_[at + i];
    sum_up(member, x, rows, operands[i], columns, sums[i]);
    if (member.problem.has_bias)
      each_stream(columns, [&](int64_t column, int64_t place) {
        convert_bias(operands[i].bias, member.problem.bias, column, columns.count, DType::f32,
                     bias[i] + place);
      });
  }
  const GemmProblem& p = members_[at].problem;
  const int64_t all = columns.streams * columns.count, element = static_cast<int64_t>(size_of(p.c));
  const auto bytes = static_cast<size_t>(columns.count * element);
  auto* result = reinterpret_cast<std::byte*>(results[0]);
  for (int64_t row = 0; row < rows; ++row) {
    std::byte* c = static_cast<std::byte*>(operands[0].c) + row * p.ldc * element;
    if (const std::byte* addend = advance(operands[0].addend, row * p.ldc, p.c))
      each_stream(columns, [&](int64_t column, int64_t place) {
        std::memcpy(result + place * element, addend + column * element, bytes);
      });
    for (size_t i = 0; i < products; ++i)
      members_[at + i].epilogue({sums[i] + row * all, members_[at + i].problem.has_bias ? bias[i] : nullptr,
                                 results[i], all, p.alpha, p.activation,
                                 p.accumulate ? results[i] : nullptr});
    if (combine_) combine_(results[0], results[1], results[0], all);
    each_stream(columns, [&](int64_t column, int64_t place) {
      std::memcpy(c + column * element, result + place * element, bytes);
    });
  }
}

std::string decline_dots(const GemmProblem& p) {
  if (p.m > max_rows(p)) return "more than " + std::to_string(max_rows(p)) + " rows";
  return {};
}

std::shared_ptr<const Gemm> create_dots(const GemmProblem& problem) {
  return std::make_shared<DotGemm>(problem);
}

}  // namespace genesis::cpu
