// genesis-opt --quantize: weights as q8 or q4, and what that costs on a sample of a text.
#pragma once

#include <string>

#include "schema/graph/model.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct QuantizeFlags {
  std::string format;     // "q8" or "q4"; empty: nothing is quantized
  std::string data;       // a text to evaluate on; empty: nothing is evaluated
  std::string tokenizer;  // of the text, as genesis-run eval takes it
  bool embedding = false, head = false;

  void add_to(Command& app);
  // Throws Error where one of the other options is given without --quantize.
  void check(const Command& app) const;
};

// Encodes the weights of `model` and says on stderr how many bytes that saves, which weights stay, and, with `data`, the
// perplexity before and after. `file`: the model's, for messages about what it brings. Throws
// Error where the text or its tokenizer does not go with the model; then nothing is encoded.
void quantize(Model& model, const std::string& file, const QuantizeFlags& flags);

}  // namespace genesis::tools
