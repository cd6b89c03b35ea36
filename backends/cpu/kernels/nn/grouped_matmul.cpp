// grouped_matmul and its gradient on the CPU: with few rows in each group the loops of gemm/gemv, with more of them tiles that
// single tasks pack and compute.
#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>

#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/gemm/row_groups.h"
#include "backends/cpu/gemm/tile_product.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/product_implementations.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kRows = TileProduct::kRows, kColumns = TileProduct::kColumns;

int64_t row_length_of(const TensorType& type) { return type.shape[type.shape.rank() - 1].value(); }
int64_t rows_of(const TensorView& x) { return x.dim(-1) == 0 ? 0 : x.numel() / x.dim(-1); }

// --- tiles: the rows of a group are cut into pieces, a piece and some columns are a task

std::shared_ptr<const void> prepare_tiles(const KernelQuery& query) {
  const bool transposed = from_attributes<ops::GroupedMatmul>(query.attributes).transpose_weights;
  const int64_t k = row_length_of(query.inputs[0]), n = row_length_of(query.outputs[0]);
  return std::make_shared<const TileProduct>(TileProduct::Layout{.dtype = query.inputs[0].dtype,
                                                                 .k_contiguous_a = true,
                                                                 .k_contiguous_b = transposed,
                                                                 .stride_a = k,
                                                                 .stride_b = transposed ? k : n,
                                                                 .ldc = n});
}

int64_t tiles_scratch(const KernelQuery& query) {
  const int64_t rows = query.inputs[0].numel() / std::max<int64_t>(1, row_length_of(query.inputs[0]));
  return max_pieces(rows, query.inputs[1].shape[0].value(), kRows) * static_cast<int64_t>(sizeof(RowGroup));
}

void run_tiles(const KernelContext& c) {
  const auto& tiles = c.prepared<TileProduct>();
  const TensorView &x = c.input(0), &y = c.output();
  const int64_t groups = c.input(1).dim(0), k = x.dim(-1), n = y.dim(-1),
                element = static_cast<int64_t>(size_of(x.dtype));
  const int64_t* offsets = checked_offsets(c.input(2), n == 0 ? 0 : y.numel() / n, c.fault);
  clear_other_rows(offsets, groups, y);
  if (!offsets || n == 0) return;
  auto* pieces = reinterpret_cast<RowGroup*>(c.scratch);
  const int64_t count = list_pieces(offsets, groups, kRows, pieces), across = ceil_div(n, kColumns);
  parallel_chunks(count * across, [&](int64_t index) {
    const RowGroup& piece = pieces[index / across];
    const int64_t column = index % across * kColumns;
    tiles.run(x.as<const std::byte>() + piece.first * k * element,
              c.input(1).as<const std::byte>() + piece.group * n * k * element + tiles.line_bytes_b(column),
              y.as<std::byte>() + (piece.first * n + column) * element, piece.rows,
              std::min(kColumns, n - column), k);
  });
}

// --- tiles of the gradient: every group has the same result, and sums as long as it has rows

std::shared_ptr<const void> prepare_gradient(const KernelQuery& query) {
  const int64_t n = row_length_of(query.inputs[0]), k = row_length_of(query.inputs[1]);
  return std::make_shared<const TileProduct>(TileProduct::Layout{.dtype = query.inputs[0].dtype,
                                                                 .k_contiguous_a = false,
                                                                 .k_contiguous_b = false,
                                                                 .stride_a = n,
                                                                 .stride_b = k,
                                                                 .ldc = k});
}

void run_gradient(const KernelContext& c) {
  const auto& tiles = c.prepared<TileProduct>();
  const TensorView &a = c.input(0), &b = c.input(1), &y = c.output();
  const int64_t groups = y.dim(0), n = y.dim(1), k = y.dim(2),
                element = static_cast<int64_t>(size_of(a.dtype));
  const int64_t* offsets = checked_offsets(c.input(2), std::max(rows_of(a), rows_of(b)), c.fault);
  if (!offsets) return clear_other_rows(nullptr, groups, y);
  const int64_t down = ceil_div(n, kRows), across = ceil_div(k, kColumns);
  parallel_chunks(groups * down * across, [&](int64_t index) {
    const int64_t g = index / (down * across), row = index / across % down * kRows,
                  column = index % across * kColumns;
    tiles.run(a.as<const std::byte>() + offsets[g] * n * element + tiles.line_bytes_a(row),
              b.as<const std::byte>() + offsets[g] * k * element + tiles.line_bytes_b(column),
              y.as<std::byte>() + ((g * n + row) * k + column) * element, std::min(kRows, n - row),
              std::min(kColumns, k - column), offsets[g + 1] - offsets[g]);
  });
}

// --- plain loops, which take every node but quantized ones

template <class F>
void dispatch_real(DType dtype, const F& f) {
  if (dtype == DType::f64) return f(TypeTag<double>{});
  if (dtype == DType::bf16) return f(TypeTag<bf16>{});
  if (dtype == DType::f16) return f(TypeTag<f16>{});
  f(TypeTag<float>{});
}

// The numbers of one matrix by row and column.
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;
  double at(int64_t i, int64_t j) const { return static_cast<double>(data[i * row + j * column]); }
};

template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, T* c, int64_t m, int64_t n, int64_t k) {
  parallel_ranges(m * n, 64, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last; ++at) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a.at(at / n, p) * b.at(p, at % n);
      c[at] = static_cast<T>(sum);
    }
  });
}

void run_plain(const KernelContext& c) {
  const TensorView &x = c.input(0), &y = c.output();
  const int64_t groups = c.input(1).dim(0), k = x.dim(-1), n = y.dim(-1);
  const int64_t* offsets = checked_offsets(c.input(2), n == 0 ? 0 : y.numel() / n, c.fault);
  clear_other_rows(offsets, groups, y);
  if (!offsets) return;
  const bool transposed = c.attributes<ops::GroupedMatmul>().transpose_weights;
  dispatch_real(x.dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t g = 0; g < groups; ++g)
      multiply<T>({x.as<const T>() + offsets[g] * k, k, 1},
                  {c.input(1).as<const T>() + g * n * k, transposed ? 1 : n, transposed ? k : 1},
                  y.as<T>() + offsets[g] * n, offsets[g + 1] - offsets[g], n, k);
  });
}

void run_plain_gradient(const KernelContext& c) {
  const TensorView &a = c.input(0), &b = c.input(1), &y = c.output();
  const int64_t groups = y.dim(0), n = y.dim(1), k = y.dim(2);
  const int64_t* offsets = checked_offsets(c.input(2), std::max(rows_of(a), rows_of(b)), c.fault);
  if (!offsets) return clear_other_rows(nullptr, groups, y);
  dispatch_real(a.dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t g = 0; g < groups; ++g)
      multiply<T>({a.as<const T>() + offsets[g] * n, 1, n}, {b.as<const T>() + offsets[g] * k, k, 1},
                  y.as<T>() + g * n * k, n, k, offsets[g + 1] - offsets[g]);
  });
}

std::optional<std::string> decline_quantized(const KernelQuery& query) {
  if (from_attributes<ops::GroupedMatmul>(query.attributes).is_quantized()) return "quantized weights";
  return std::nullopt;
}

}  // namespace

std::span<const OpKernel> grouped_matmul_kernels() {
  static const OpKernel kernels[] = {
      {"grouped_matmul", grouped_gemv_implementation()},
      {"grouped_matmul", grouped_quantized_gemv_implementation()},
      {"grouped_matmul",
       {.name = "tiles",
        .run = run_tiles,
        .can_run = decline_quantized,
        .scratch_bytes = tiles_scratch,
        .prepare = prepare_tiles}},
      {"grouped_matmul", {.name = "plain", .run = run_plain, .can_run = decline_quantized}},
      {"grouped_matmul_grad", {.name = "tiles", .run = run_gradient, .prepare = prepare_gradient}},
      {"grouped_matmul_grad", {.name = "plain", .run = run_plain_gradient}}};
  return kernels;
}

}  // namespace genesis::cpu
