// Writes CUDA C++ for a running sum along one axis: the kernels of scan_kit.h with its sizes as constants. Needs
// neither a GPU nor NVRTC.
#pragma once

#include <string>

#include "schema/core/checked_size.h"
#include "schema/core/tensor.h"

namespace genesis::cuda {

struct ScanPlan {
  int64_t outer = 1, count = 1, inner = 1;
  int lanes = 32, threads = 256;  // `lanes`: threads of one row, if `inner` is 1
  int64_t pieces = 1, piece = 0;  // number of pieces of a row, and elements of each

  int64_t blocks() const;
  int64_t scratch_bytes() const { return pieces == 1 ? 0 : (CheckedSize(outer) * pieces * 8).value(); }
};

// Sizes must be known; a scalar counts as one element.
ScanPlan plan_scan(const TensorType& x, int64_t axis);

// Writes kernels `totals` (to be run first, if there are several pieces) and `scan`. Their parameters: the addresses
// of input, output and totals in one struct; the number of rows or columns as i64.
std::string scan_source(const ScanPlan& plan, DType in, DType out, bool reverse);

}  // namespace genesis::cuda
