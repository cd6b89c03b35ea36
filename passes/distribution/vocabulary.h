// Cross-entropy where each rank along "tensor" has the logits of a part of the classes (Shoeybi et al. 2019,
// arXiv:1909.08053, section 3): of each row the ranks exchange the log-sum-exp of their classes, one number, and of all rows
// the loss. Used by the pass partition.
#pragma once

#include <vector>

#include "passes/distribution/sharding/factors.h"
#include "schema/ops/nn/loss.h"

namespace genesis::passes {

// What cross_entropy(logits, target) gives, of this rank's logits [..., classes / ranks]: the loss, and with_lse each row's.
std::vector<Value> cross_entropy_of_parts(const ops::CrossEntropy& op, Value logits, Value target,
                                          const FactorPart& part);

// Bytes of logits that exist at a time: large enough that dweight, which is read and written once for a block, costs little.
inline constexpr int64_t kLogitBytes = int64_t{256} << 20;

// What linear_cross_entropy(x, weight, target, divisor or none) gives, of this rank's rows of the weight: the loss, with_gradients dx and, but
// for a frozen weight, dweight of the same rows. Rows of x come in blocks of at most `logit_bytes` of logits, or of 128 rows;
// each block's logits are made once.
std::vector<Value> linear_cross_entropy_of_parts(const ops::LinearCrossEntropy& op, Value x, Value weight,
                                                 Value target, Value divisor, const FactorPart& part,
                                                 int64_t logit_bytes = kLogitBytes);

}  // namespace genesis::passes
