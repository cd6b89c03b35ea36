// Splits the rows of linear_cross_entropy into pieces (chunks of rows) of a few sizes, whose products are created when the plan
// is made, and lays out its scratch memory. Invariant: the number of pieces of each size follows from the shapes and from the
// number of rows that count, never from the number of threads.
#pragma once

#include <memory>
#include <vector>

#include "backends/common/logit_products.h"
#include "backends/cpu/gemm/gemm.h"

namespace genesis::cpu {

// The products of a piece of `rows` rows; those that the node does not need are null.
struct PieceProducts {
  int64_t rows = 0;
  std::shared_ptr<const Gemm> logits, dx;
  std::shared_ptr<const Gemm> starts_dweight, adds_to_dweight;  // for the first piece and for all others
};

// The split of the rows. Logits have the dtype `wide`.
struct LogitPieces : LogitShape {
  std::vector<PieceProducts> sizes;  // largest first; empty if there are no logits
  PieceProducts rest;                // the remainder after pieces of the largest size if all rows count

  int64_t most_rows() const { return sizes.empty() ? 0 : sizes.front().rows; }
  // Returns the products of the next piece if `left` rows that count are left. It may have more rows than that.
  const PieceProducts& next(int64_t left, bool all_count) const;
};

LogitPieces cut_rows(const KernelQuery& query);

// Offsets in the scratch memory, in bytes.
struct PieceScratch {
  int64_t logits = 0, low = 0, lse = 0, row_loss = 0;  // `low` holds dlogits in a 16-bit dtype
  int64_t counted = 0;                                 // the rows that count, i64, in order
  int64_t x = 0, target = 0, dx = 0;                   // x, targets and dx of a piece of them
  int64_t gemm = 0, total = 0;
};

PieceScratch scratch_of(const LogitPieces& pieces);

}  // namespace genesis::cpu
