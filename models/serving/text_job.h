// Generates the texts of one request and answers it, streamed or whole.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "models/serving/answer_format.h"
#include "models/serving/exchange.h"
#include "models/serving/language_model.h"

namespace genesis::serving {

struct TextTask {
  std::vector<std::vector<int64_t>> prompts;
  int64_t n = 1;                       // texts of each prompt: the n-th, from 0, has the seed plus n
  int64_t adapter = 0;                 // LanguageOptions::adapters, from 1; 0: none
  text::GenerateOptions options = {};  // max_tokens: as far as the context goes
  // Makes SamplingOptions::constraint for each text, which follows this text alone; empty: none.
  std::function<std::function<void(std::span<const int64_t>, std::span<float>)>()> constrain = {};
  bool streams = false;
  std::unique_ptr<AnswerFormat> format = {};
  Headers headers = {};  // for the answer
};

// Starts the texts and returns; the thread of the engine answers. If the client leaves, they end at the next step. Throws
// ApiError if a prompt does not fit or the queue is full; then nothing has been started or sent.
// `client`: Call::client.
void start_texts(LanguageModel& model, TextTask task, const std::shared_ptr<Reply>& reply, uint64_t client);

}  // namespace genesis::serving
