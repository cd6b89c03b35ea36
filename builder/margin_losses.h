// Losses by margins and by distributions, under PyTorch's names (torch.nn.functional), and distances of rows. All compute in f32 at least;
// `reduction` is applied to the elements or rows that PyTorch applies it to. Every one is a composition of ops, with their gradients.
#pragma once

#include "schema/ops/nn/loss.h"

namespace genesis {

// The distance of rows [..., size]: the p-norm over the last axis of x1 - x2 + eps.
Value pairwise_distance(Value x1, Value x2, double p = 2, double eps = 1e-6, bool keep_dims = false);

// max(0, -target (x1 - x2) + margin); target is 1 or -1.
Value margin_ranking_loss(Value x1, Value x2, Value target, double margin = 0,
                          Reduction reduction = Reduction::kMean);
// x where the target is 1, max(0, margin - x) where it is -1.
Value hinge_embedding_loss(Value x, Value target, double margin = 1, Reduction reduction = Reduction::kMean);
// log(1 + exp(-target x)).
Value soft_margin_loss(Value x, Value target, Reduction reduction = Reduction::kMean);
// 1 - cos(x1, x2) for rows whose target is 1, max(0, cos - margin) for those of -1; x1, x2 [rows, size], target [rows].
Value cosine_embedding_loss(Value x1, Value x2, Value target, double margin = 0,
                            Reduction reduction = Reduction::kMean);
// max(0, |anchor - positive| - |anchor - negative| + margin) by p-norms of rows [..., size]; with `swap`, the negative's distance is the
// smaller of those to the anchor and to the positive.
Value triplet_margin_loss(Value anchor, Value positive, Value negative, double margin = 1, double p = 2,
                          double eps = 1e-6, bool swap = false, Reduction reduction = Reduction::kMean);
// The mean over classes of the binary cross-entropies of logits x [..., classes]; weight [classes] or empty.
Value multilabel_soft_margin_loss(Value x, Value target, Value weight = {},
                                  Reduction reduction = Reduction::kMean);
// The sum over the other classes of max(0, margin - x[target] + x[i])^p (times weight[target]), over the number of classes; x [rows,
// classes], target i32/i64 [rows], p 1 or 2.
Value multi_margin_loss(Value x, Value target, int64_t p = 1, double margin = 1, Value weight = {},
                        Reduction reduction = Reduction::kMean);
// exp(x) - target x, or x - target log(x + eps) without `log_input`; `full` adds Stirling's approximation for targets above 1.
Value poisson_nll_loss(Value x, Value target, bool log_input = true, bool full = false, double eps = 1e-8,
                       Reduction reduction = Reduction::kMean);
// (log(v) + (x - target)^2 / v) / 2 with v = max(var, eps), through which variances below eps get no gradient; `full` adds log(2 pi) / 2.
Value gaussian_nll_loss(Value x, Value target, Value var, bool full = false, double eps = 1e-6,
                        Reduction reduction = Reduction::kMean);

}  // namespace genesis
