// Sum, mean, prod, max, min, any, all. Rows are cut into chunks by the shape alone, and chunks are merged in a fixed order,
// pairwise along a row, so sums are accurate and do not depend on the number of threads.
#include "schema/ops/tensor/reduce.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/moves/run_moves.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/reduce/reduce_row.h"
#include "backends/cpu/reduce/reduce_shape.h"
#include "backends/kernel.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kRowChunk = 1 << 16;  // elements of a row that one task reduces
constexpr int64_t kTile = 1024;         // columns per task
constexpr int64_t kRowBlock = 128;      // rows accumulated before they join the rest
constexpr int64_t kTaskBytes = 512 << 10;

struct ReducePlan {
  ReduceShape shape;
  ReduceFunctions functions;
  double divisor = 1;
  int64_t element = 0, result = 0;  // bytes per element of x and of the result
  int64_t chunk = 0, chunks = 1;    // elements (rows, if inner > 1) per chunk of `count`; number of chunks
};

// Cuts `count` into chunks, but only if one task per result would take too long.
void cut(ReducePlan& plan) {
  const ReduceShape& s = plan.shape;
  plan.chunk = kRowChunk;
  if (s.inner > 1) {
    const int64_t row_bytes = std::min(s.inner, kTile) * plan.element;
    plan.chunk = std::max<int64_t>(kTaskBytes / row_bytes / kRowBlock * kRowBlock, kRowBlock);
  }
  plan.chunks = s.count <= 2 * plan.chunk ? 1 : (s.count + plan.chunk - 1) / plan.chunk;
  if (plan.chunks == 1) plan.chunk = s.count;
}

ReducePlan make_plan(const KernelQuery& query, Reduce op, bool mean) {
  const auto attributes = from_attributes<ops::OverAxes>(query.attributes);
  const TensorType& x = query.inputs[0];
  ReducePlan plan;
  plan.shape = make_reduce_shape(x.shape, normalize_axes(attributes.axes, x.shape.rank()), x.dtype, false);
  plan.functions = reduce_functions(op, x.dtype);
  plan.element = static_cast<int64_t>(size_of(x.dtype));
  plan.result = static_cast<int64_t>(size_of(query.outputs[0].dtype));
  if (mean) plan.divisor = static_cast<double>(plan.shape.count);
  cut(plan);
  return plan;
}

void run_rows(const ReducePlan& plan, const std::byte* x, std::byte* y, std::byte* scratch) {
  const int64_t outer = plan.shape.outer, count = plan.shape.count;  // clang 14 cannot capture bindings
  const auto row = [&](int64_t i) { return x + i * count * plan.element; };
  const auto finish = [&](uint64_t accumulator, int64_t i) {
    plan.functions.finish(&accumulator, y + i * plan.result, 1, plan.divisor);
  };
  if (plan.chunks == 1) {
    parallel_rows(outer, count * plan.element, [&](int64_t first, int64_t last) {
      constexpr int64_t kBatch = 64;  // results that are finished together, for short rows
      std::byte batch[kBatch * 8];
      for (int64_t i = first; i < last; i += kBatch) {
        const int64_t n = std::min(kBatch, last - i), size = plan.functions.accumulator;
        for (int64_t k = 0; k < n; ++k) {
          const uint64_t sum = reduce_row(plan.functions, plan.element, row(i + k), count);
          std::memcpy(batch + k * size, &sum, static_cast<size_t>(size));
        }
        plan.functions.finish(batch, y + i * plan.result, n, plan.divisor);
      }
    });
    return;
  }
  auto* partial = reinterpret_cast<uint64_t*>(scratch);
  parallel_chunks(outer * plan.chunks, [&](int64_t task) {
    const int64_t start = task % plan.chunks * plan.chunk;
    const std::byte* from = row(task / plan.chunks) + start * plan.element;
    partial[task] = reduce_row(plan.functions, plan.element, from, std::min(plan.chunk, count - start));
  });
  for (int64_t i = 0; i < outer; ++i) {
    Pairwise sum(plan.functions);
    for (int64_t k = 0; k < plan.chunks; ++k) sum.add(partial[i * plan.chunks + k]);
    finish(sum.total(), i);
  }
}

// Reduces `rows` rows to acc[0, width). A narrow matrix is read as a wider one, with several rows in one, and folded afterwards.
void reduce_columns(const ReducePlan& plan, const std::byte* x, int64_t rows, int64_t width, int64_t stride,
                    std::byte* acc) {
  alignas(64) std::byte block[kTile * 8];
  const ReduceFunctions& f = plan.functions;
  const int64_t fold = width == stride && width < kTile / 8 ? kTile / 4 / width : 1;
  const int64_t wide = width * fold, wide_rows = rows / fold;
  f.columns(x, std::min(wide_rows, kRowBlock), wide, stride * fold, acc);
  for (int64_t row = kRowBlock; row < wide_rows; row += kRowBlock) {
    f.columns(x + row * stride * fold * plan.element, std::min(kRowBlock, wide_rows - row), wide,
              stride * fold, block);
    f.merge(acc, block, wide);
  }
  for (int64_t i = 1; i < fold; ++i) f.merge(acc, acc + i * width * f.accumulator, width);
  if (wide_rows * fold == rows) return;
  f.columns(x + wide_rows * fold * stride * plan.element, rows - wide_rows * fold, width, stride, block);
  f.merge(acc, block, width);
}

void run_columns(const ReducePlan& plan, const std::byte* x, std::byte* y, std::byte* scratch) {
  const int64_t outer = plan.shape.outer, count = plan.shape.count, inner = plan.shape.inner;
  const ReduceFunctions& f = plan.functions;
  const int64_t tiles = (inner + kTile - 1) / kTile, chunks = plan.chunks;
  const auto reduce_task = [&](int64_t task) {
    const int64_t column = task % tiles * kTile, chunk = task / tiles % chunks, o = task / tiles / chunks;
    const int64_t width = std::min(kTile, inner - column), row = chunk * plan.chunk;
    alignas(64) std::byte acc[kTile * 8];
    reduce_columns(plan, x + ((o * count + row) * inner + column) * plan.element,
                   std::min(plan.chunk, count - row), width, inner, acc);
    if (chunks == 1) return f.finish(acc, y + (o * inner + column) * plan.result, width, plan.divisor);
    std::memcpy(scratch + ((o * chunks + chunk) * inner + column) * f.accumulator, acc,
                static_cast<size_t>(width * f.accumulator));
  };
  parallel_rows(outer * chunks * tiles, plan.chunk * std::min(inner, kTile) * plan.element,
                [&](int64_t first, int64_t last) {
                  for (int64_t task = first; task < last; ++task) reduce_task(task);
                });
  if (chunks == 1) return;
  parallel_rows(outer * tiles, chunks * kTile * f.accumulator, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t column = task % tiles * kTile, o = task / tiles, width = std::min(kTile, inner - column);
      std::byte* acc = scratch + (o * chunks * inner + column) * f.accumulator;
      for (int64_t k = 1; k < chunks; ++k) f.merge(acc, acc + k * inner * f.accumulator, width);
      f.finish(acc, y + (o * inner + column) * plan.result, width, plan.divisor);
    }
  });
}

void run_reduce(const KernelContext& c) {
  const auto& plan = c.prepared<ReducePlan>();
  const std::byte* x = c.input(0).as<std::byte>();
  if (plan.shape.gather) {
    run_strided_copy(*plan.shape.gather, c.scratch, x);
    x = c.scratch;
  }
  std::byte* scratch = c.scratch + plan.shape.gather_bytes;
  if (plan.shape.inner == 1)
    run_rows(plan, x, c.output().as<std::byte>(), scratch);
  else
    run_columns(plan, x, c.output().as<std::byte>(), scratch);
}

template <Reduce op, bool mean>
int64_t reduce_scratch(const KernelQuery& query) {
  const ReducePlan plan = make_plan(query, op, mean);
  if (plan.chunks == 1) return plan.shape.gather_bytes;
  return (CheckedSize(plan.shape.outer) * plan.chunks * plan.shape.inner * 8 + plan.shape.gather_bytes)
      .value();
}

template <Reduce op, bool mean>
std::shared_ptr<const void> prepare_reduce(const KernelQuery& query) {
  return std::make_shared<const ReducePlan>(make_plan(query, op, mean));
}

template <Reduce op, bool mean = false>
constexpr KernelImpl kReduce = {.name = "blocked",
                                .run = run_reduce,
                                .scratch_bytes = reduce_scratch<op, mean>,
                                .prepare = prepare_reduce<op, mean>};

constexpr OpKernel kKernels[] = {{"sum", kReduce<Reduce::kSum>},   {"mean", kReduce<Reduce::kSum, true>},
                                 {"prod", kReduce<Reduce::kProd>}, {"max", kReduce<Reduce::kMax>},
                                 {"min", kReduce<Reduce::kMin>},   {"any", kReduce<Reduce::kAny>},
                                 {"all", kReduce<Reduce::kAll>}};

}  // namespace

std::span<const OpKernel> reduce_kernels() { return kKernels; }

}  // namespace genesis::cpu
