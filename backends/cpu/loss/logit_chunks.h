// Splits the rows of linear_cross_entropy into chunks of a few sizes, whose products are created when the plan
// is made, and lays out its scratch memory. Invariant: the number of chunks of each size follows from the shapes and from the
// number of rows that count, never from the number of threads.
#pragma once

#include <memory>
#include <vector>

#include "backends/common/logit_products.h"
#include "backends/cpu/gemm/gemm.h"

namespace genesis::cpu {

// The products of a chunk of `rows` rows; those that the node does not need are null.
struct ChunkProducts {
  int64_t rows = 0;
  std::shared_ptr<const Gemm> logits, dx;
  std::shared_ptr<const Gemm> starts_dweight, adds_to_dweight;  // for the first chunk and for all others
};

// The split of the rows. Logits have the dtype `wide`.
struct LogitChunks : LogitShape {
  std::vector<ChunkProducts> sizes;  // largest first; empty if there are no logits
  ChunkProducts rest;                // the remainder after chunks of the largest size if all rows count

  int64_t most_rows() const { return sizes.empty() ? 0 : sizes.front().rows; }
  // Returns the products of the next chunk if `left` rows that count are left. It may have more rows than that.
  const ChunkProducts& next(int64_t left, bool all_count) const;
};

LogitChunks cut_rows(const KernelQuery& query);

// Offsets in the scratch memory, in bytes.
struct ChunkScratch {
  int64_t logits = 0, low = 0, lse = 0, row_loss = 0;  // `low` holds dlogits in a 16-bit dtype
  int64_t counted = 0;                                 // the rows that count, i64, in order
  int64_t x = 0, target = 0, dx = 0;                   // x, targets and dx of a chunk of them
  int64_t gemm = 0, total = 0;
};

ChunkScratch scratch_of(const LogitChunks& chunks);

}  // namespace genesis::cpu
