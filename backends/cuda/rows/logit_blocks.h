// linear_cross_entropy in blocks of rows: how rows are cut, and the products and sums that its ways share. What is declared
// here is defined in kernels/nn/linear_cross_entropy.cu.
#pragma once

#include "backends/common/logit_products.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/rows/logit_rows.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cuda {

// Neighbouring classes. The library's fast 16-bit kernels want sizes that are multiples of 8, which a
// vocabulary need not be (50257): the classes beyond the last multiple are a range of their own.
struct Classes {
  int64_t first, count;
};

// Of one range of classes.
struct LogitProducts {
  std::shared_ptr<const Gemm> logits, dx, dweight;  // those that are asked for
};

// How the rows are cut, by shape alone, and the products of the first block, of those between, and of the last. Logits have the
// dtype of x.
struct LogitBlocks : LogitShape {
  int64_t each = 1;                                // rows of a block
  int64_t ld = 0;                                  // of logits: rows start where fast loads can
  std::vector<LogitProducts> first, middle, last;  // by range, where prepare_blocks() made them

  // The few first, so that what they add to dx is rounded while it is small.
  std::vector<Classes> ranges() const {
    constexpr int64_t kFast = 64, kWorthwhile = 1024;
    const int64_t whole = classes / kFast * kFast;
    if (element() != 2 || classes % 8 == 0 || classes < kWorthwhile) return {{0, classes}};
    return {{whole, classes - whole}, {0, whole}};
  }
  const std::vector<LogitProducts>& products(int64_t block) const {
    return block == 0 ? first : block + 1 == count() ? last : middle;
  }

  int64_t count() const { return classes == 0 ? 0 : (rows + each - 1) / each; }
  int64_t rows_in(int64_t block) const { return std::min(each, rows - block * each); }
  int64_t half() const { return each / 2; }  // the rows of a half block
  int64_t element() const { return static_cast<int64_t>(size_of(dtype)); }
  int64_t logits_bytes() const {
    return (CheckedSize(std::min(each, rows)) * ld * element()).rounded_up(256).value();
  }
  // Of each row; and the denominator.
  int64_t loss_bytes() const { return ((CheckedSize(rows) + 1) * 8).rounded_up(256).value(); }
};

LogitBlocks cut_rows(const KernelQuery& query);
int64_t blocks_scratch_bytes(const KernelQuery& query);
// Timing the library's ways takes a while: a way that hardly ever wants logits has them made without it.
LogitBlocks prepare_blocks(const KernelQuery& query, bool wants_logits);
// Of so many rows. `accumulate`: they add to dweight.
std::vector<LogitProducts> prepare_products(const KernelQuery& query, const LogitBlocks& b, int64_t rows,
                                            bool accumulate, bool wants_logits);

// One run of the op.
struct LogitRun {
  const KernelContext& c;
  const LogitBlocks& b;
  const ops::LinearCrossEntropy& op = c.attributes<ops::LinearCrossEntropy>();
  const std::vector<Classes> ranges = b.ranges();
  std::byte *logits = c.scratch, *losses = c.scratch + (b.count() == 0 ? 0 : b.logits_bytes());
  std::byte* workspace = losses + b.loss_bytes();
  double *row_loss = reinterpret_cast<double*>(losses), *denominator = row_loss + b.rows;
  const double* divisor = op.reduction != Reduction::kMean ? nullptr
                          : c.num_inputs() > 3             ? c.input(3).as<const double>()
                                                           : denominator;
  Targets targets{c.input(2).data, c.input(2).dtype == DType::i32, b.classes, op.ignore_index};

  // What of a matrix with rows of x's width lies from a row on.
  std::byte* rows_of(const TensorView& matrix, int64_t row) const {
    return matrix.as<std::byte>() + row * b.hidden * static_cast<int64_t>(size_of(matrix.dtype));
  }
  std::byte* logits_of(const Classes& range) const { return logits + range.first * b.element(); }

  void count_targets() const;
  // dx = dlogits weight and, where it is asked for, dweight += dlogits^T x, of what stands in the place of a block's logits.
  void add_gradients(const std::vector<LogitProducts>& products, const void* x, void* dx) const;
  void put_loss() const;
};

// All of a run, with logits. It takes any node and any chip.
void run_row_blocks(const KernelContext& c, const LogitBlocks& b);

}  // namespace genesis::cuda
