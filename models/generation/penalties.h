// Applies biases, and penalties on the logits of tokens that a text already contains.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::text {

// logits [rows, vocab] -> f32 [rows, vocab]. First `bias`, f32[rows, vocab], is added. `in_prompt` and `chosen`, i32[rows, vocab], count how often a token occurs in the
// prompt of a row, and how often it was chosen since. `penalties` are f32[3, rows], or [3, 1] for all rows:
//
//   repetition r   for every token in either: x / r if x > 0, else x r (Keskar and others, "CTRL", 2019; transformers'
//                  RepetitionPenaltyLogitsProcessor)
//   presence p, frequency f   then x - p (chosen > 0) - f chosen (as defined by OpenAI's API)
Value penalized(Value logits, Value bias, Value in_prompt, Value chosen, Value penalties);

}  // namespace genesis::text
