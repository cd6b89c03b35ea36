// Logits made smaller for tokens that a text has already. Used by models/text/sampling_entries.cpp.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::text {

// logits [rows, vocab] -> f32 [rows, vocab]. `in_prompt` and `chosen`, i32[rows, vocab], say how often a token stands in the
// prompt of a row, and how often it was chosen since. `penalties` f32[3, rows], or [3, 1] for all of them:
//
//   repetition r   of every token in either: x / r where x > 0, else x r (Keskar and others, "CTRL", 2019; transformers'
//                  RepetitionPenaltyLogitsProcessor)
//   presence p, frequency f   then x - p (chosen > 0) - f chosen (as OpenAI's interface defines them)
Value penalized(Value logits, Value in_prompt, Value chosen, Value penalties);

}  // namespace genesis::text
