// genesis-opt --quantize: stores weights as q8, q4 or q4m, and measures the cost on a sample of a text.
#pragma once

#include <string>
#include <vector>

#include "models/text/evaluation_texts.h"
#include "schema/graph/model.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct QuantizeFlags {
  std::string format;              // "q8", "q4" or "q4m"; empty: nothing is quantized
  std::string calibration;         // a text or .jsonl for calibration; empty: none
  text::TextSource source;         // texts to evaluate on; nothing is evaluated if its `data` is empty
  std::vector<std::string> as_q8;  // patterns of names
  bool embedding = false, head = false;

  void add_to(Command& app);
  // Throws UsageError if one of the other options is given without --quantize.
  void check(const Command& app) const;
};

// Encodes the weights of `model`. Reports on stderr the bytes saved, the weights that stay as they are and, with
// `source`, the perplexity before and after. `file`: the model's name, for messages. Throws Error, before anything is
// encoded, if the text or its tokenizer does not fit the model.
void quantize(Model& model, const std::string& file, const QuantizeFlags& flags);

}  // namespace genesis::tools
