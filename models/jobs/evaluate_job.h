// Evaluation as one call: how well a language model predicts a text or the answers of conversations. It does what `genesis-run
// eval` does.
//
//     const auto report = jobs::evaluate({.model = "qwen2.genesis", .source = {.data = "text.txt"}});
//     std::cout << report.evaluation.perplexity() << "\n";
#pragma once

#include <memory>
#include <string>

#include "executor/session.h"
#include "models/generation/evaluate.h"
#include "models/text/evaluation_texts.h"

namespace genesis::jobs {

struct EvaluateJob {
  std::string model;        // a .genesis file, or a folder of checkpoints: its newest
  text::TextSource source;  // the data and its tokenizer
  text::EvaluateOptions options = {};
  SessionOptions session = {};
};

struct EvaluationReport {
  text::Evaluation evaluation;
  int64_t bytes = 0;  // bytes of the predicted tokens that count
  double seconds = 0;

  double bits_per_byte() const;  // 0 without bytes
};

// Throws Error for a text whose tokens do not fit the model, read from `file`, and for windows that it cannot read. Warns of
// windows that are longer than the texts that it was made for.
void check_can_evaluate(const Model& model, const std::string& file, const text::EvaluationTexts& texts,
                        const text::EvaluateOptions& options);

// Evaluates all texts. Throws Error if the loss is not finite.
EvaluationReport evaluate(Session& session, const std::string& file, const text::EvaluationTexts& texts,
                          const text::EvaluateOptions& options);

// Does all of it.
EvaluationReport evaluate(const EvaluateJob& job);

}  // namespace genesis::jobs
