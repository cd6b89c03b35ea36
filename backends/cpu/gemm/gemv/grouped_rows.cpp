#include "backends/cpu/gemm/gemv/grouped_rows.h"

#include <fmt/format.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/parallel/parallel_runs.h"
#include "backends/cpu/product_implementations.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis::cpu {
namespace {

// A thread gets a few chunks of the weights, each long enough to be read at full speed; gemm_dots.cpp says more.
constexpr int64_t kChunkBytes = 32 << 10, kMaxChunkBytes = 512 << 10, kChunksOfThread = 4;
constexpr int64_t kMaxSums = 4 << 10;  // sums of a chunk, on the stack: half of L1
constexpr int64_t kMaxColumns = kMaxSums / 8;

// Returns the number of rows in each group above which packing the weights pays off.
int64_t max_rows(int64_t k, DType weights) {
  if (k < 256) return k < 128 ? 8 : 12;
  return weights == DType::f32 ? 40 : 16;
}

int64_t rows_of(const Shape& x) { return x.numel().value() / std::max<int64_t>(1, x[x.rank() - 1].value()); }

}  // namespace

std::string decline_grouped_rows(const KernelQuery& query) {
  const Shape &x = query.inputs[0].shape, &weights = query.inputs[1].shape;
  if (!from_attributes<ops::GroupedMatmul>(query.attributes).transpose_weights)
    return "weights [groups, k, n]";
  if (query.inputs[0].numel() == 0 || query.outputs[0].numel() == 0) return "no elements";
  const int64_t groups = weights[0].value(), most = max_rows(x[x.rank() - 1].value(), query.inputs[1].dtype);
  if (rows_of(x) > most * groups && !rows_are_alone(x))
    return fmt::format("more than {} rows in each group", most);
  return {};
}

GroupedRows::GroupedRows(const KernelQuery& query, const GemvKernel& kernel)
    : kernel_(kernel),
      epilogue_(epilogue_function(DType::f32, query.outputs[0].dtype)),
      x_(query.inputs[0].dtype),
      weights_(query.inputs[1].dtype),
      result_(query.outputs[0].dtype) {
  const Shape &x = query.inputs[0].shape, &y = query.outputs[0].shape, &weights = query.inputs[1].shape;
  k_ = x[x.rank() - 1].value();
  n_ = y[y.rank() - 1].value();
  groups_ = weights[0].value();
  rows_ = rows_of(x);
  const WeightFormat format = from_attributes<ops::GroupedMatmul>(query.attributes).weight_format;
  const bool is_plain = format == WeightFormat::kPlain;
  row_bytes_ =
      is_plain ? k_ * static_cast<int64_t>(size_of(weights_)) : k_ / kQuantBlock * quant_block_bytes(format);
  scale_row_bytes_ = is_plain ? 0 : k_ / kQuantBlock * 2;
  stride_w_ = weights[2].value();
  packed_row_ = kernel_.packed_row(k_);
}

int64_t GroupedRows::pieces_bytes() const {
  return round_up(std::min(rows_, groups_) * static_cast<int64_t>(sizeof(Piece)), kAlignment);
}

// A group's packed rows are at most 8 for 5.
int64_t GroupedRows::scratch_bytes() const {
  return (CheckedSize(2 * rows_) * packed_row_ * 4 + pieces_bytes()).value();
}

int64_t GroupedRows::list_groups(const int64_t* offsets, Piece* pieces) const {
  int64_t count = 0, packed = 0;
  for (int64_t g = 0; g < groups_; ++g) {
    const int64_t rows = offsets[g + 1] - offsets[g];
    if (rows == 0) continue;
    pieces[count++] = {{g, offsets[g], rows}, packed};
    packed += padded_rows(rows);
  }
  return count;
}

void GroupedRows::pack(const KernelContext& c, const Piece* pieces, int64_t count, float* x) const {
  const int64_t grain =
      std::max<int64_t>(1, kInlineBytes / std::max<int64_t>(1, k_ * 4 * ceil_div(rows_, count)));
  parallel_ranges(count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      kernel_.pack({advance(c.input(0).data, pieces[i].rows.first * k_, x_), k_, 1, pieces[i].rows.rows, k_},
                   x + pieces[i].packed * packed_row_);
  });
}

// Returns how many rows of each stream a chunk has, for products with so many groups.
int64_t GroupedRows::chunk_rows_for(int64_t groups) const {
  const int64_t row = std::max<int64_t>(1, row_bytes_ + scale_row_bytes_),
                wanted = kChunksOfThread * tbb::this_task_arena::max_concurrency(),
                bytes = std::clamp(groups * n_ * row / wanted, kChunkBytes, kMaxChunkBytes);
  return std::clamp<int64_t>(bytes / row / kernel_.streams, 1, kMaxColumns / kernel_.streams);
}

void GroupedRows::run(const KernelContext& c) const {
  const int64_t* offsets = checked_offsets(c.inputs.back(), rows_, c.fault);
  clear_other_rows(offsets, groups_, c.output());
  if (!offsets) return;
  auto* pieces = reinterpret_cast<Piece*>(c.scratch);
  auto* x = reinterpret_cast<float*>(c.scratch + pieces_bytes());
  const int64_t count = list_groups(offsets, pieces);
  if (count == 0) return;
  pack(c, pieces, count, x);
  const Call call{c, pieces, x};
  const int64_t stream_rows = n_ / kernel_.streams, in_streams = stream_rows * kernel_.streams,
                chunk_rows = chunk_rows_for(count),
                chunks = std::max<int64_t>(1, ceil_div(stream_rows, chunk_rows));
  const auto work = [&](int64_t index) {
    const Piece& piece = pieces[index / chunks];
    const int64_t first = index % chunks * chunk_rows, now = std::min(chunk_rows, stream_rows - first);
    if (now > 0) compute(call, piece, {first, now, kernel_.streams, stream_rows});
    if (index % chunks == chunks - 1 && in_streams < n_)
      compute(call, piece, {in_streams, n_ - in_streams, 1, 0});
  };
  if (count * n_ * row_bytes_ > kInlineBytes)
    parallel_runs(count * chunks, work);
  else
    for (int64_t index = 0; index < count * chunks; ++index) work(index);
}

void GroupedRows::compute(const Call& call, const Piece& piece, const Columns& columns) const {
  alignas(kAlignment) float sums[kMaxSums];
  const int64_t all = columns.streams * columns.count, at_once = std::max<int64_t>(8, kMaxSums / all / 8 * 8);
  const int64_t row_of_weights = piece.rows.group * n_ + columns.first,
                element = static_cast<int64_t>(size_of(result_));
  for (int64_t row = 0; row < piece.rows.rows; row += at_once) {
    const int64_t rows = std::min(at_once, piece.rows.rows - row);
    kernel_.run({.x = call.x + (piece.packed + row) * packed_row_,
                 .stride_x = packed_row_,
                 .m = rows,
                 .weights = call.c.input(1).as<const std::byte>() + row_of_weights * row_bytes_,
                 .scales = scale_row_bytes_
                               ? call.c.input(2).as<const std::byte>() + row_of_weights * scale_row_bytes_
                               : nullptr,
                 .stride_w = stride_w_,
                 .n = columns.count,
                 .k = k_,
                 .streams = columns.streams,
                 .apart = columns.apart,
                 .sums = sums,
                 .stride_sums = all});
    for (int64_t s = 0; s < columns.streams; ++s)
      epilogue_({.sum = sums + s * columns.count,
                 .bias = nullptr,
                 .c = call.c.output().as<std::byte>() +
                      ((piece.rows.first + row) * n_ + columns.first + s * columns.apart) * element,
                 .n = columns.count,
                 .alpha = 1,
                 .activation = Activation::kNone,
                 .addend = nullptr,
                 .rows = rows,
                 .sum_stride = all,
                 .c_stride = n_});
  }
}

std::shared_ptr<const void> prepare_grouped_rows(const KernelQuery& query, const GemvKernel& kernel) {
  return std::make_shared<const GroupedRows>(query, kernel);
}

int64_t grouped_rows_scratch(const KernelQuery& query, const GemvKernel& kernel) {
  return GroupedRows(query, kernel).scratch_bytes();
}

void run_grouped_rows(const KernelContext& c) { c.prepared<GroupedRows>().run(c); }

namespace {

GemvKernel kernel_of(const KernelQuery& query) {
  return dot_rows_kernel(query.inputs[0].dtype, query.inputs[1].dtype);
}

std::optional<std::string> decline(const KernelQuery& query) {
  if (from_attributes<ops::GroupedMatmul>(query.attributes).is_quantized()) return "quantized weights";
  if (const std::string why = decline_grouped_rows(query); !why.empty()) return why;
  if (!kernel_of(query).run) return "operands are " + std::string(name_of(query.inputs[0].dtype));
  return std::nullopt;
}

}  // namespace

KernelImpl grouped_gemv_implementation() {
  return {
      .name = "gemv",
      .run = run_grouped_rows,
      .can_run = decline,
      .scratch_bytes = [](const KernelQuery& query) { return grouped_rows_scratch(query, kernel_of(query)); },
      .prepare = [](const KernelQuery& query) { return prepare_grouped_rows(query, kernel_of(query)); }};
}

}  // namespace genesis::cpu
