// Quantization with calibration as one call: runs a language model on a text, and rounds the weights of q4m so that the results
// of their products change least on it. It does what `genesis-opt --quantize q4m --calibrate TEXT` does.
//
//     const text::EvaluationTexts texts = text::read_evaluation_texts({.data = "text.txt"}, model, "qwen2.genesis", 8192);
//     jobs::quantize_calibrated(model, {.format = WeightFormat::kQ4m, .tables_as_q8 = true}, texts);
#pragma once

#include "models/text/evaluation_texts.h"
#include "passes/precision/quantize.h"
#include "schema/messages/progress.h"

namespace genesis::jobs {

struct CalibrationOptions {
  int64_t tokens = 16384;  // tokens of the texts that are read
  int64_t seq = 512;       // tokens per window; at most those that the model has positions for
  // Bytes of the matrices x^T x that are measured in one round. Later rounds run the model with the weights rounded by those
  // before.
  int64_t round_bytes = int64_t{128} << 20;
  OnProgress on_progress =
      {};  // called with "calibrating", the inputs of products that are done, and all of them
};

// Encodes and freezes weights as passes::quantize() does. Weights of the entry point `forward` that become q4m are rounded with
// calibration; all others are rounded to the nearest value. The same model and texts give the same bits, whatever the number of
// threads. Throws Error, with the model unchanged, as passes::quantize() does, and for texts that are shorter than one block of
// 32 tokens.
passes::QuantizeReport quantize_calibrated(Model& model, const passes::QuantizeOptions& options,
                                           const text::EvaluationTexts& texts,
                                           const CalibrationOptions& calibration = {});

}  // namespace genesis::jobs
