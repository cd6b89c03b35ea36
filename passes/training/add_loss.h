// Adds the entry point `loss` to a model that has none, such as an imported program: its entry point `forward` with one more input,
// `target`, and a number to minimize.
#pragma once

#include <string>
#include <string_view>

#include "schema/graph/model.h"

namespace genesis::passes {

enum class LossKind : uint8_t {
  // Logits [..., classes] against i64 [...], or, with four axes or more, [batch, classes, ...] against i64 [batch, ...], as torch has
  // them. A softmax at the end of the program is taken for its logits. There is an output `accuracy` beside the loss, but for
  // three axes, which texts have.
  kCrossEntropy,
  kMse,  // against a target of the output's own shape, as the others below
  kL1,
  kBceWithLogits,
  kBce,  // probabilities; a sigmoid at the end of the program is taken for its logits
  // Logits [batch, time, classes] against i64 [batch, target_length], filled with -100 at the end (ctc_loss.h).
  kCtc,
};

struct LossOptions {
  LossKind kind = LossKind::kCrossEntropy;
  std::string output = {};  // an output of `entry`; empty: its only one
  std::string entry = "forward";
};

// Reads "cross_entropy", "mse", "l1", "bce_with_logits", "bce" or "ctc", or one of them with the output that it takes: "mse=output.0". Throws
// Error with the names there are.
LossOptions parse_loss(std::string_view text);

// Returns the share of targets, without those that are ignored, that are the most probable class along `axis` of the logits; f32[].
Value accuracy_of(Value logits, Value target, int64_t axis);

// The loss is called `loss`; the outputs of `entry` stay. Throws Error if the model has a loss already, or if the output is none that
// the loss can take.
void add_loss(Model& model, const LossOptions& options);

}  // namespace genesis::passes
