// Loss layers with PyTorch's names.
//
//     const Value loss = nn::CrossEntropyLoss{.ignore_index = 0}(logits, target);
#pragma once

#include "schema/ops/nn/loss.h"

namespace genesis::nn {

struct CrossEntropyLoss {
  Value weight = {};
  int64_t ignore_index = kIgnoredTarget;
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
  Value operator()(Value logits, Value target) const {
    return cross_entropy(logits, target, {ignore_index, label_smoothing, reduction}, weight);
  }
};
struct NLLLoss {
  Value weight = {};
  int64_t ignore_index = kIgnoredTarget;
  Reduction reduction = Reduction::kMean;
  Value operator()(Value log_probabilities, Value target) const {
    return nll_loss(log_probabilities, target, weight, ignore_index, reduction);
  }
};
struct MSELoss {
  Reduction reduction = Reduction::kMean;
  Value operator()(Value x, Value target) const { return mse_loss(x, target, reduction); }
};
struct L1Loss {
  Reduction reduction = Reduction::kMean;
  Value operator()(Value x, Value target) const { return l1_loss(x, target, reduction); }
};
struct SmoothL1Loss {
  double beta = 1;
  Reduction reduction = Reduction::kMean;
  Value operator()(Value x, Value target) const { return smooth_l1_loss(x, target, beta, reduction); }
};
struct HuberLoss {
  double delta = 1;
  Reduction reduction = Reduction::kMean;
  Value operator()(Value x, Value target) const { return huber_loss(x, target, delta, reduction); }
};
struct BCELoss {
  Value weight = {};
  Reduction reduction = Reduction::kMean;
  Value operator()(Value probabilities, Value target) const {
    return bce_loss(probabilities, target, weight, reduction);
  }
};
struct BCEWithLogitsLoss {
  Value weight = {}, pos_weight = {};
  Reduction reduction = Reduction::kMean;
  Value operator()(Value x, Value target) const {
    return bce_with_logits_loss(x, target, weight, pos_weight, reduction);
  }
};
struct KLDivLoss {
  bool log_target = false;
  Reduction reduction = Reduction::kMean;
  Value operator()(Value input, Value target) const {
    return kl_div_loss(input, target, log_target, reduction);
  }
};

}  // namespace genesis::nn
