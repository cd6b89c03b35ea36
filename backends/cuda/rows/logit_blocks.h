// linear_cross_entropy in blocks of rows: how the rows are split, and the products and sums that its kernel
// implementations share. Everything declared here is defined in kernels/nn/linear_cross_entropy.cu.
#pragma once

#include "backends/common/logit_products.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/rows/logit_rows.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cuda {

// A range of neighboring classes. cuBLASLt's fast 16-bit kernels want sizes that are multiples of 8, which a
// vocabulary need not be (50257): the classes beyond the last multiple form a range of their own.
struct Classes {
  int64_t first, count;
};

// The products of one range of classes.
struct LogitProducts {
  std::shared_ptr<const Gemm> logits, dx, dweight;  // null if not needed
};

// The blocks of rows, which depend on the shape alone, and the products of the first block, of the blocks between,
// and of the last one. Logits have the dtype of x.
struct LogitBlocks : LogitShape {
  int64_t each = 1;                                // rows per block
  int64_t ld = 0;                                  // leading dimension: rows start where vector loads can
  std::vector<LogitProducts> first, middle, last;  // one per range; filled by prepare_blocks()

  // Returns the ranges of classes. The small one comes first, so that its contribution to dx is rounded while dx is
  // small.
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
  int64_t half() const { return each / 2; }  // rows of a half block
  int64_t element() const { return static_cast<int64_t>(size_of(dtype)); }
  int64_t logits_bytes() const {
    return (CheckedSize(std::min(each, rows)) * ld * element()).rounded_up(256).value();
  }
  // Bytes of the rows' losses and of the denominator.
  int64_t loss_bytes() const { return ((CheckedSize(rows) + 1) * 8).rounded_up(256).value(); }
};

LogitBlocks cut_rows(const KernelQuery& query);
int64_t blocks_scratch_bytes(const KernelQuery& query);
// Splits the rows and creates the products. Timing the library's algorithms takes a while: with `wants_logits` false,
// the product of the logits is not created.
LogitBlocks prepare_blocks(const KernelQuery& query, bool wants_logits);
// Creates the products of a block of `rows` rows. With `accumulate` they add to dweight.
std::vector<LogitProducts> prepare_products(const KernelQuery& query, const LogitBlocks& b, int64_t rows,
                                            bool accumulate, bool wants_logits);

// The arguments of one run of the op.
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

  // Returns the address of row `row` of a matrix with rows of x's width.
  std::byte* rows_of(const TensorView& matrix, int64_t row) const {
    return matrix.as<std::byte>() + row * b.hidden * static_cast<int64_t>(size_of(matrix.dtype));
  }
  std::byte* logits_of(const Classes& range) const { return logits + range.first * b.element(); }

  void count_targets() const;
  // Computes dx = dlogits weight and, if requested, dweight += dlogits^T x. The dlogits are in the place of a block's
  // logits.
  void add_gradients(const std::vector<LogitProducts>& products, const void* x, void* dx) const;
  void put_loss() const;
};

// Runs the op with logits in memory. It takes any node and any chip.
void run_row_blocks(const KernelContext& c, const LogitBlocks& b);

}  // namespace genesis::cuda
