#include "backends/cpu/gemm/tile_product.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/gemm_util.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kBlockBytes = 2048;  // bytes of a packed line: 512 steps of 4 bytes
constexpr int64_t kPanelPadding =
    16 * 17;  // elements: 17 cache lines, so that panels do not fall into the same cache sets
// Bytes on the stack of a task: kernels of small tiles have the most panels, each with its padding.
constexpr int64_t kPackedA = 360 << 10, kPackedB = 660 << 10, kSums = 180 << 10;

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

}  // namespace

TileProduct::TileProduct(const Layout& layout)
    : layout_(layout),
      kernel_(layout.dtype == DType::f64 ? micro_kernel_f64() : micro_kernel_f32()),
      pack_a_(pack_function_a(layout.dtype, kernel_, layout.k_contiguous_a)),
      pack_b_(pack_function_b(layout.dtype, kernel_, layout.k_contiguous_b)),
      epilogue_(epilogue_function(wide_dtype(kernel_.packed), layout.dtype)),
      element_(bytes_of(layout.dtype)),
      sum_bytes_(kernel_.element_bytes()) {
  const int64_t k = kBlockBytes / kernel_.element_bytes();
  const auto bytes = [&](int64_t lines, int lines_each, int width) {
    return ceil_div(lines, lines_each) * panel_elements(width, k) * kernel_.element_bytes();
  };
  GENESIS_ASSERT(bytes(kRows, kernel_.mr, kernel_.width_a) <= kPackedA);
  GENESIS_ASSERT(bytes(kColumns, kernel_.nr, kernel_.nr) <= kPackedB);
  GENESIS_ASSERT(round_up(kRows, kernel_.mr) * round_up(kColumns, kernel_.nr) * sum_bytes_ <= kSums ||
                 layout.dtype == DType::f64);
}

int64_t TileProduct::panel_elements(int width, int64_t k) const {
  return round_up(kernel_.depth(k) * width, 16) + kPanelPadding;
}

void TileProduct::run(const std::byte* a, const std::byte* b, std::byte* c, int64_t rows, int64_t columns,
                      int64_t k) const {
  alignas(kAlignment) std::byte packed_a[kPackedA], packed_b[kPackedB], sums[2 * kSums];
  const int64_t block_k = kBlockBytes / kernel_.element_bytes();
  int64_t at = 0;
  do {
    const int64_t now = std::min(block_k, k - at), panel_a = panel_elements(kernel_.width_a, now),
                  panel_b = panel_elements(kernel_.nr, now);
    const int64_t step_a = at * (layout_.k_contiguous_a ? 1 : layout_.stride_a),
                  step_b = at * (layout_.k_contiguous_b ? 1 : layout_.stride_b);
    if (now > 0) {
      pack_a_(a + step_a * element_, layout_.stride_a, rows, now, packed_a, panel_a);
      pack_b_(b + step_b * element_, layout_.stride_b, columns, now, packed_b, panel_b);
    }
    multiply({packed_a, packed_b, panel_a * kernel_.element_bytes(), panel_b * kernel_.element_bytes(),
              kernel_.depth(now), at > 0},
             rows, columns, sums);
    at += now;
  } while (at < k);
  finish(sums, c, rows, columns);
}

// Register tiles of sums lie one after the other, each mr x nr: first along the columns of C, then down its rows.
void TileProduct::multiply(const Block& block, int64_t rows, int64_t columns, std::byte* sums) const {
  const int64_t across = ceil_div(columns, kernel_.nr), tile_bytes = kernel_.mr * kernel_.nr * sum_bytes_;
  for (int64_t j = 0; j < across; ++j)
    for (int64_t i = 0; i * kernel_.mr < rows; ++i)
      kernel_.run(block.depth, block.a + i * block.panel_a, block.b + j * block.panel_b,
                  sums + (i * across + j) * tile_bytes, kernel_.nr, block.adds);
}

void TileProduct::finish(const std::byte* sums, std::byte* c, int64_t rows, int64_t columns) const {
  const int64_t tile_bytes = kernel_.mr * kernel_.nr * sum_bytes_;
  for (int64_t i = 0; i < rows; i += kernel_.mr)
    for (int64_t j = 0; j < columns; j += kernel_.nr, sums += tile_bytes)
      epilogue_({.sum = sums,
                 .bias = nullptr,
                 .c = c + (i * layout_.ldc + j) * element_,
                 .n = std::min<int64_t>(kernel_.nr, columns - j),
                 .alpha = 1,
                 .activation = Activation::kNone,
                 .addend = nullptr,
                 .rows = std::min<int64_t>(kernel_.mr, rows - i),
                 .sum_stride = kernel_.nr,
                 .c_stride = layout_.ldc});
}

}  // namespace genesis::cpu
