// linear_cross_entropy's rows without a pass over their logits, in bf16 on Hopper chips. The product that
// makes the logits writes e = exp(logit - reference) instead (logit_epilogue.h), and a small kernel behind it has
// of each row the sum Z of all e and the loss. softmax is e / Z: the factor scale / Z is applied to what the
// products make of e, and to the x that meets it, which are smaller by far. What the target's logit adds to
// the gradients, a row of the weight and a row of x, is added in f32, and e is 0 there.
//
// Any reference gives the same gradients as long as e neither overflows nor vanishes. It is the target's
// logit, a dot product a row: what is above it by so much that f32 overflows has a loss of 60 and more, and a
// row with such a loss is rare in any training. Where there is one, the kernels that found it ask for its
// block of rows again, over the largest logits: they are started twice, and the second time do nothing unless
// asked. Used by kernels/linear_cross_entropy.cu.
#pragma once

#include "backends/cuda/rows/logit_rows.h"

namespace genesis::cuda {

struct ExponentialShape {
  int64_t rows = 0, hidden = 0, classes = 0;
  int64_t each = 0, ld = 0;  // rows of a block; elements between rows of exponentials

  int64_t blocks() const { return each > 0 ? (rows + each - 1) / each : 0; }
};

// Asks no GPU.
bool exponentials_fit(const ExponentialShape& shape);
int64_t exponential_scratch_bytes(const ExponentialShape& shape);
// Whether the build and the driver have them for the current device.
bool has_exponentials();

struct ExponentialCall {
  ExponentialShape shape;
  const void *x = nullptr, *weight = nullptr;  // [rows, hidden], [classes, hidden]
  Targets targets;
  const double* denominator = nullptr;  // of a mean, or null
  double* row_loss = nullptr;           // [rows]
  std::byte* scratch = nullptr;         // exponential_scratch_bytes()

  void* raw_dx() const;  // [each, hidden] in bf16, free between try_exponentials() and finish_gradients()
};

// Of all rows, before the first block.
void start_references(const KernelContext& c, const ExponentialCall& call);
// Exponentials of a block into `exponentials`, and x times its rows' factors into `scaled_x`. False, and
// nothing started, where the driver refuses.
bool try_exponentials(const KernelContext& c, const ExponentialCall& call, int64_t block, void* exponentials,
                      void* scaled_x);
// When dweight has what exponentials^T scaled_x adds, and raw_dx() is exponentials weight: the rest of a
// block's dx and dweight.
void finish_gradients(const KernelContext& c, const ExponentialCall& call, int64_t block, void* dx,
                      void* dweight);

}  // namespace genesis::cuda
