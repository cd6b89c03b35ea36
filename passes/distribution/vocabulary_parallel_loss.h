// Cross-entropy if each rank along "tensor" has the logits of some classes (Shoeybi et al. 2019, arXiv:1909.08053, section 3):
// for each row the ranks exchange one number, the log-sum-exp of their classes, and for all rows together the loss.
#pragma once

#include <vector>

#include "passes/distribution/sharding/factors.h"
#include "schema/ops/nn/loss.h"

namespace genesis::passes {

// Returns the results of cross_entropy(logits, target) from this rank's logits [..., classes / ranks]: the loss, and with_lse
// that of each row.
std::vector<Value> cross_entropy_of_shards(const ops::CrossEntropy& op, Value logits, Value target,
                                           const FactorShard& shard);

// Bytes of logits that exist at a time: large enough that dweight, which is read and written once per block, costs little.
inline constexpr int64_t kLogitBytes = int64_t{256} << 20;

// Returns the results of linear_cross_entropy(x, weight, target, divisor or none) from this rank's rows of the weight: the
// loss; with_gradients also dx and, unless the weight is frozen, dweight of the same rows. Rows of x come in blocks of at most
// `logit_bytes` of logits, or of 128 rows; each block's logits are computed once.
std::vector<Value> linear_cross_entropy_of_shards(const ops::LinearCrossEntropy& op, Value x, Value weight,
                                                  Value target, Value divisor, const FactorShard& shard,
                                                  int64_t logit_bytes = kLogitBytes);

}  // namespace genesis::passes
