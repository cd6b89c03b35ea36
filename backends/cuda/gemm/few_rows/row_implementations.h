// Nodes of linear with few rows of x, described as RowProducts: the one translation for all rows of linear's kernel table that
// compute them. A row adds the limits of its kernel.
#pragma once

#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/kernel.h"

namespace genesis::cuda {

struct RowKernel {
  std::string (*why_not)(const RowProducts& p);  // its limits; empty: it takes the problem
  StartRows start;
  StartRows otherwise;              // runs where `start` returns false
  bool is_quantized = false;        // takes quantized weights, and no others
  bool has_launches = false;        // takes more weights than one launch does, in several
  bool reads_biases_early = false;  // `independent` is for biases and the norm, too
};

// can_run, scratch_bytes, prepare and run of a row. For weights that are not quantized, and where neither kernel starts or a
// buffer does not start at a multiple of 16 bytes, a plain product or the node's decomposition runs.
std::optional<std::string> why_no_row_products(const KernelQuery& query, const RowKernel& kernel);
int64_t row_products_scratch(const KernelQuery& query);
std::shared_ptr<const void> prepare_row_products(const KernelQuery& query);
void run_row_products(const KernelContext& c, const RowKernel& kernel);

template <const RowKernel& kKernel>
KernelImpl row_implementation(const char* name, std::optional<std::string> (*why_not_here)() = nullptr) {
  return {.name = name,
          .run = [](const KernelContext& c) { run_row_products(c, kKernel); },
          .can_run = [](const KernelQuery& query) { return why_no_row_products(query, kKernel); },
          .scratch_bytes = row_products_scratch,
          .prepare = prepare_row_products,
          .why_not_here = why_not_here};
}

}  // namespace genesis::cuda
