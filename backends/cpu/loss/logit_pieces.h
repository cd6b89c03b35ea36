// How linear_cross_entropy cuts its rows: into pieces of a few sizes, whose products are made when the plan is, and where things
// lie in its scratch memory. Used by that kernel only. Invariant: how many rows of which sizes are multiplied follows from the
// shapes and from how many rows count, never from the number of threads.
#pragma once

#include <memory>
#include <vector>

#include "backends/common/logit_products.h"
#include "backends/cpu/gemm/gemm.h"

namespace genesis::cpu {

// Of a piece of so many rows; those that are asked for.
struct PieceProducts {
  int64_t rows = 0;
  std::shared_ptr<const Gemm> logits, dx;
  std::shared_ptr<const Gemm> starts_dweight, adds_to_dweight;  // of the first piece, of all others
};

// Logits are `wide`.
struct LogitPieces : LogitShape {
  std::vector<PieceProducts> sizes;  // largest first; none where there are no logits
  PieceProducts rest;                // where all rows count, what is left behind pieces of the largest size

  int64_t most_rows() const { return sizes.empty() ? 0 : sizes.front().rows; }
  // Of the next piece, when so many rows that count are left. It may have more rows than that.
  const PieceProducts& next(int64_t left, bool all_count) const;
};

LogitPieces cut_rows(const KernelQuery& query);

// Offsets in bytes.
struct PieceScratch {
  int64_t logits = 0, low = 0, lse = 0, row_loss = 0;  // `low`: dlogits in a 16-bit dtype
  int64_t counted = 0;                                 // the rows that count, i64, in order
  int64_t x = 0, target = 0, dx = 0;                   // of a piece of them
  int64_t gemm = 0, total = 0;
};

PieceScratch scratch_of(const LogitPieces& pieces);

}  // namespace genesis::cpu
