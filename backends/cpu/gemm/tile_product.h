// The product of one tile whose place and depth are known only in a run, such as that of a group of rows. One task computes it: it
// packs both operands on its stack, a block of k after the other. The order of a sum depends on k alone.
#pragma once

#include <cstdint>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_operand.h"

namespace genesis::cpu {

class TileProduct {
 public:
  static constexpr int64_t kRows = 112, kColumns = 256;  // the largest tile

  // C = op(A) op(B), of matrices that all have `dtype`: f32, bf16, f16 or f64. `k_contiguous_*` says whether k is the axis of an
  // operand along which memory is contiguous; `stride_*` are the elements from line to line if it is, else from one k to the next.
  // A line is a row of op(A) or a column of op(B). `ldc` is the distance between rows of C.
  struct Layout {
    DType dtype;
    bool k_contiguous_a, k_contiguous_b;
    int64_t stride_a, stride_b, ldc;
  };
  explicit TileProduct(const Layout& layout);

  // Computes the tile of `rows` x `columns` whose operands begin at a and b, and whose result begins at c; k may be 0.
  void run(const std::byte* a, const std::byte* b, std::byte* c, int64_t rows, int64_t columns,
           int64_t k) const;

  // Returns the bytes by which a tile's operand lies behind that of the first line.
  int64_t line_bytes_a(int64_t line) const {
    return line_bytes(layout_.k_contiguous_a, layout_.stride_a, line);
  }
  int64_t line_bytes_b(int64_t line) const {
    return line_bytes(layout_.k_contiguous_b, layout_.stride_b, line);
  }

 private:
  // The panels of one block of k.
  struct Block {
    const std::byte *a, *b;
    int64_t panel_a, panel_b;  // bytes from panel to panel
    int64_t depth;             // steps of the kernel
    bool adds;                 // to the sums of earlier blocks
  };

  int64_t line_bytes(bool k_contiguous, int64_t stride, int64_t line) const {
    return line * (k_contiguous ? stride : 1) * element_;
  }
  int64_t panel_elements(int width, int64_t k) const;
  void multiply(const Block& block, int64_t rows, int64_t columns, std::byte* sums) const;
  void finish(const std::byte* sums, std::byte* c, int64_t rows, int64_t columns) const;

  Layout layout_;
  MicroKernel kernel_;
  PackFunction pack_a_, pack_b_;
  EpilogueFunction epilogue_;
  int64_t element_, sum_bytes_;
};

}  // namespace genesis::cpu
