// Locally typical sampling: leaves the tokens whose surprise is near the one that the distribution lets expect.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::text {

// logits [rows, vocab] -> the same, with -infinity for the tokens that are left out. p = softmax(logits / temperature), and tokens are
// taken in the order of |-log p - entropy of p|, until their probabilities sum to `mass`, f32[rows], or more; tokens as far away as
// the last one are taken, too (TypicalLogitsWarper of transformers). A row with a mass of 1 stays as it is. temperature: f32[] or
// [rows]. Meister and others, "Locally Typical Sampling", 2022.
Value typical(Value logits, Value temperature, Value mass);

}  // namespace genesis::text
