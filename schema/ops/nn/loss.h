// Losses with exactly PyTorch's semantics. They are computed in f32 at least, and the result is f32 (f64 for f64). Cross-entropy
// is an op with its own gradient; the other losses are compositions of elementwise ops and reductions, which fuse.
#pragma once

#include <algorithm>

#include "schema/graph/graph.h"
#include "schema/ops/index_range.h"

namespace genesis {

// The default ignore_index: a target with this value counts neither in the sum nor in the mean.
inline constexpr int64_t kIgnoredTarget = -100;

enum class Reduction : uint8_t { kNone, kMean, kSum };

template <>
struct EnumNames<Reduction> {
  static constexpr std::string_view names[] = {"none", "mean", "sum"};
};

struct CrossEntropyOptions {
  int64_t ignore_index = kIgnoredTarget;
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;  // kMean divides by the sum of the weights of counted targets
  static void fields(auto& self, auto&& visit) {
    visit("ignore_index", self.ignore_index);
    visit("label_smoothing", self.label_smoothing);
    visit("reduction", self.reduction);
  }
};

namespace ops {

// logits [..., C], target (i32/i64 [...] or probabilities [..., C]), [weight [C]] -> loss, [lse [...]]. With `with_lse`, lse is
// the log-sum-exp of each row of logits, which the gradient needs.
//
// Vocabulary parallelism: the logits may cover only the C classes from first_index on, if ranks share the classes (`part`);
// targets still number all classes. Let s_c = (1 - label_smoothing) [c is the target] + label_smoothing / all_indices, the target
// share of class c. The loss of a row is then the contribution of its own classes, the sum of s_c (lse - logit_c), where lse also
// covers only its own classes; both are 0 for ignored rows. This form requires class targets, no weight, reduction none and
// with_lse, and has no gradient. passes/distribution/vocabulary_parallel_loss combines the results of all ranks to the loss;
// cross_entropy_grad takes the lse of all classes.
struct CrossEntropy : CrossEntropyOptions {
  static constexpr OpInfo info{
      .name = "cross_entropy",
      .doc =
          "Cross-entropy of logits [..., classes] against class indices or "
          "probabilities; with `all_indices`, the contribution of the classes from `first_index` on.",
      .inputs = {2, 3},
      .precision = Precision::kWide};
  bool with_lse = false;
  IndexRange part = {};
  static void fields(auto& self, auto&& visit) {
    CrossEntropyOptions::fields(self, visit);
    visit("with_lse", self.with_lse);
    IndexRange::fields(self.part, visit);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const {
    return std::max(row_length(in[0]), elements_each(in.first(1), out[0]));
  }
  void grad(GradientContext& g) const;
};

// logits, target, lse, dy (the gradient of the loss), [weight] -> dlogits.
struct CrossEntropyGrad : CrossEntropyOptions {
  static constexpr OpInfo info{
      .name = "cross_entropy_grad",
      .doc =
          "The gradient of cross_entropy for its logits, from the saved log-sum-exp of each row, which "
          "covers all classes even if the logits, with `all_indices`, cover only some.",
      .inputs = {4, 5},
      .precision = Precision::kWide,
      .in_place = kOverFirst};
  IndexRange part = {};
  static void fields(auto& self, auto&& visit) {
    CrossEntropyOptions::fields(self, visit);
    IndexRange::fields(self.part, visit);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return std::max(row_length(in[0]), row_count(in[0])); }
};

// x [..., H], weight [V, H], target [...], [divisor f64[]] -> loss, [dx, [dweight]]. The reduction is not kNone.
//
// A mean divides by the divisor if there is one, otherwise by the number of targets that count. With a divisor, a batch can be
// computed in chunks whose means add up, all over the same divisor.
// The logits exist only for one block of rows at a time. With `with_gradients` the same pass also computes the gradients for a
// loss gradient of 1, because the logits are available there; computing them again would cost a third matrix product. With
// `frozen_weight` there is no dweight, which saves a third of the work.
// dweight is f32 (f64 for f64), because it is a sum over blocks. dx has the dtype of x, but f32 for f16, which cannot hold the
// gradients of an unscaled loss. For the same reason a kernel stores (p - target) / rows in f16 only times a factor.
struct LinearCrossEntropy : CrossEntropyOptions {
  static constexpr OpInfo info{.name = "linear_cross_entropy",
                               .doc =
                                   "cross_entropy(linear(x, weight), target) in blocks of rows: logits never "
                                   "exist whole.",
                               .inputs = {3, 4},
                               .precision = Precision::kMatmul};
  bool with_gradients = false, frozen_weight = false;
  static void fields(auto& self, auto&& visit) {
    CrossEntropyOptions::fields(self, visit);
    visit("with_gradients", self.with_gradients);
    visit("frozen_weight", self.frozen_weight);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// Binary cross-entropy per element; an op because the clamped logarithms need a special gradient at 0 and 1.
struct Bce : NoAttributes {
  static constexpr OpInfo info{.name = "bce",
                               .doc = "-(t * max(log(p), -100) + (1 - t) * max(log(1 - p), -100)).",
                               .inputs = {2, 2},
                               .precision = Precision::kF32,
                               .in_place = kOverFirst};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// logits [..., classes], target i32/i64 [...] or probabilities [..., classes]; weight [classes] or empty. A target outside [0,
// classes) that is not ignore_index is an error of the run.
Value cross_entropy(Value logits, Value target, const CrossEntropyOptions& options = {}, Value weight = {});
// Computes cross_entropy(linear(x, weight), target, options) for x [..., H], weight [V, H] without holding all logits in memory.
Value linear_cross_entropy(Value x, Value weight, Value target, const CrossEntropyOptions& options = {});
// log_probabilities [..., classes], target i32/i64 [...].
Value nll_loss(Value log_probabilities, Value target, Value weight = {}, int64_t ignore_index = kIgnoredTarget,
               Reduction reduction = Reduction::kMean);
Value mse_loss(Value x, Value target, Reduction reduction = Reduction::kMean);
Value l1_loss(Value x, Value target, Reduction reduction = Reduction::kMean);
Value smooth_l1_loss(Value x, Value target, double beta = 1.0, Reduction reduction = Reduction::kMean);
Value huber_loss(Value x, Value target, double delta = 1.0, Reduction reduction = Reduction::kMean);
Value bce_loss(Value probabilities, Value target, Value weight = {}, Reduction reduction = Reduction::kMean);
Value bce_with_logits_loss(Value x, Value target, Value weight = {}, Value pos_weight = {},
                           Reduction reduction = Reduction::kMean);
// `input` are log-probabilities. kMean divides by the number of elements (PyTorch's "mean", not "batchmean").
Value kl_div_loss(Value input, Value target, bool log_target = false, Reduction reduction = Reduction::kMean);

}  // namespace genesis
