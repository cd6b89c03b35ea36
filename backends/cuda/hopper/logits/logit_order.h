// The order in which linear_cross_entropy processes its rows: those that count come first, so that the blocks of rows
// after them can be skipped. In fine-tuning two fifths of the rows or more have no target.
#pragma once

#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/rows/logit_rows.h"

namespace genesis::cuda {

#ifdef __CUDACC__

constexpr int kOrderThreads = 1024;

struct OrderArguments {
  Targets targets;
  int64_t rows;
  FaultReport fault;
  int* order;           // [rows]: rows that count in their order, then the others in theirs
  int* counted;         // number of rows that count
  double* denominator;  // the same number, the divisor of a mean
};

// Runs in one block. Reports targets that are out of range.
static __global__ void __launch_bounds__(kOrderThreads) order_rows(const OrderArguments a) {
  const int64_t each = (a.rows + kOrderThreads - 1) / kOrderThreads, first = min(a.rows, threadIdx.x * each),
                end = min(a.rows, first + each);
  int mine = 0;
  for (int64_t row = first; row < end; ++row) {
    const int64_t at = a.targets[row];
    if (a.targets.counts(at))
      ++mine;
    else if (at != a.targets.ignore_index)
      a.fault(at, a.targets.classes);
  }
  const BlockScan<int> scan = block_scan(mine);
  if (threadIdx.x == 0) {
    *a.counted = scan.total;
    *a.denominator = scan.total;
  }
  int counted = scan.before, other = scan.total + static_cast<int>(first) - scan.before;
  for (int64_t row = first; row < end; ++row)
    a.order[a.targets.counts(a.targets[row]) ? counted++ : other++] = static_cast<int>(row);
}

// The share of a block of rows that is multiplied, which depends on how many of its rows count.
enum LogitPiece : int { kWholeBlock, kHalfBlock, kNoBlock };

// `first` is the block's first position in the order; `half` is the number of rows of half a block, or 0 if only the
// whole block can be chosen. The first block always runs: it writes the weight's gradient, to which the others add.
static __global__ void choose_piece(cudaGraphConditionalHandle choice, const int* counted, int first,
                                    int half) {
  const int left = *counted - first;
  const bool is_none = left <= 0 && first > 0, is_half = half > 0 && left <= half;
  cudaGraphSetConditional(choice, is_none ? kNoBlock : is_half ? kHalfBlock : kWholeBlock);
}

#endif

}  // namespace genesis::cuda
