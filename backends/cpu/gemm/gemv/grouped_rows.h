// Grouped products with few rows in each group, such as those of the experts of decoded tokens: all threads together read the
// weights of each group that has rows once, where they lie. A row's sums have one order, whatever the other rows are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemv/gemm_rows.h"
#include "backends/cpu/gemm/row_groups.h"

namespace genesis::cpu {

// Returns the reason why so many rows in each group are not few; empty if they are.
std::string decline_grouped_rows(const KernelQuery& query);

class GroupedRows {
 public:
  // The node is a grouped_matmul with transpose_weights.
  GroupedRows(const KernelQuery& query, const GemvKernel& kernel);

  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  struct Piece {
    RowGroup rows;
    int64_t packed;  // first row in the packed x
  };
  struct Columns {
    int64_t first, count, streams, apart;
  };
  struct Call {
    const KernelContext& c;
    const Piece* pieces;
    const float* x;
  };

  int64_t list_groups(const int64_t* offsets, Piece* pieces) const;
  void pack(const KernelContext& c, const Piece* pieces, int64_t count, float* x) const;
  int64_t chunk_rows_for(int64_t groups) const;
  void compute(const Call& call, const Piece& piece, const Columns& columns) const;
  int64_t pieces_bytes() const;

  GemvKernel kernel_;
  EpilogueFunction epilogue_;
  DType x_, weights_, result_;
  int64_t k_, n_, groups_, rows_;
  int64_t row_bytes_, scale_row_bytes_;  // bytes of one row of the weights, and of its scales
  int64_t stride_w_;                     // elements from row to row of the weights
  int64_t packed_row_;                   // floats of a packed row of x
};

// The functions of an implementation for this kernel.
std::shared_ptr<const void> prepare_grouped_rows(const KernelQuery& query, const GemvKernel& kernel);
int64_t grouped_rows_scratch(const KernelQuery& query, const GemvKernel& kernel);
void run_grouped_rows(const KernelContext& c);

}  // namespace genesis::cpu
