// Adds the entry point `loss` to a model that has none, such as an imported program: its entry point `forward` with one more input,
// `target`, and a number to minimize.
#pragma once

#include <string>
#include <string_view>

#include "schema/graph/model.h"

namespace genesis::passes {

enum class LossKind : uint8_t {
  kCrossEntropy,  // logits [..., classes] against i64 [...]; a softmax at the end of the program is taken for its logits
  kMse,  // against a target of the output's own shape, as the others below
  kL1,
  kBceWithLogits,
};

struct LossOptions {
  LossKind kind = LossKind::kCrossEntropy;
  std::string output = {};  // an output of `entry`; empty: its only one
  std::string entry = "forward";
};

// Reads "cross_entropy", "mse", "l1" or "bce_with_logits", or one of them with the output that it takes: "mse=output.0". Throws
// Error with the names there are.
LossOptions parse_loss(std::string_view text);

// The loss is called `loss`; the outputs of `entry` stay. Throws Error if the model has a loss already, or if the output is none that
// the loss can take.
void add_loss(Model& model, const LossOptions& options);

}  // namespace genesis::passes
