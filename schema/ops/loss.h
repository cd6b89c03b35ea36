// Losses, with PyTorch's semantics exactly. Computed in f32 at least.
#pragma once

#include <limits>

#include "schema/graph.h"

namespace genesis {

enum class Reduction : uint8_t { kNone, kMean, kSum };

struct CrossEntropyOptions {
  int64_t ignore_index =
      -100;  // targets with this value count neither in the sum nor in the mean; any value works
  double label_smoothing = 0;
  Reduction reduction =
      Reduction::kMean;  // the mean divides by the sum of the weights of the targets that count
};
// logits [..., classes] (classes last), target i32/i64 [...] or probabilities [..., classes]; weight
// [classes] or empty.
Value cross_entropy(Value logits, Value target, const CrossEntropyOptions& options = {}, Value weight = {});
Value nll_loss(Value log_probabilities, Value target, Value weight = {}, int64_t ignore_index = -100,
               Reduction reduction = Reduction::kMean);
Value mse_loss(Value x, Value target, Reduction reduction = Reduction::kMean);
Value l1_loss(Value x, Value target, Reduction reduction = Reduction::kMean);
Value smooth_l1_loss(Value x, Value target, double beta = 1.0, Reduction reduction = Reduction::kMean);
Value huber_loss(Value x, Value target, double delta = 1.0, Reduction reduction = Reduction::kMean);
Value bce_loss(Value probabilities, Value target, Value weight = {}, Reduction reduction = Reduction::kMean);
Value bce_with_logits_loss(Value x, Value target, Value weight = {}, Value pos_weight = {},
                           Reduction reduction = Reduction::kMean);
Value kl_div_loss(Value input, Value target, bool log_target = false, Reduction reduction = Reduction::kMean);

}  // namespace genesis
