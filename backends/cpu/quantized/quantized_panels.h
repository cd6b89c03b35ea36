// Products of many rows with quantized weights, on CPUs with AVX512-VNNI. 16 rows of the weights become a panel that holds four
// bytes of each row side by side, so that one instruction multiplies four bytes of a row of x with those of all 16 rows, and each
// lane has its own scale. Panels stay in a core's L2 cache while all rows of x pass by. x is quantized as for few rows
// (quantized_rows.h), with the same accuracy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cpu {

// C [m, n] = act(x [m, k] weights [n, k]^T + bias) + addend. x and bias are of `dtype`: f32, bf16 or f16. C and addend are of
// `out`: the same dtype, or f32.
struct PanelProblem {
  DType dtype = DType::f32, out = DType::f32;
  WeightFormat format = WeightFormat::kQ8;
  int64_t m = 0, n = 0, k = 0;  // k is a multiple of 32
  Activation activation = Activation::kNone;
};

struct PanelOperands {
  const void *x, *quants, *scales;
  const void *bias, *addend;  // null = not added
  void* c;
};

bool has_quantized_panels();  // true if this CPU supports them

class QuantizedPanels {
 public:
  explicit QuantizedPanels(const PanelProblem& problem);
  int64_t scratch_bytes() const;
  void run(const PanelOperands& operands, std::byte* scratch) const;

 private:
  struct Task {
    int64_t first_row, rows, first_column, columns;
  };
  int64_t tasks() const { return row_chunks_ * column_chunks_; }
  int64_t panel_bytes() const;
  int64_t x_bytes() const;
  Task task(int64_t index) const;
  void compute(const PanelOperands& operands, const std::byte* x, const Task& task, std::byte* panels) const;

  const PanelProblem p_;
  const EpilogueFunction epilogue_;
  int64_t row_chunks_ = 0, column_chunks_ = 0;
};

}  // namespace genesis::cpu
