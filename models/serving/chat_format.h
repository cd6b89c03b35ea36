// The answers of /v1/chat/completions.
#pragma once

#include <string>
#include <vector>

#include "models/serving/answer_format.h"
#include "models/serving/language_model.h"
#include "models/serving/tool_calls.h"

namespace genesis::serving {

class ChatFormat : public AnswerFormat {
 public:
  struct Options {
    std::string model;  // its name
    size_t texts = 1;
    bool streams = false, includes_usage = false, has_logprobs = false;
    bool parses_calls = false;  // the model may call tools
  };
  ChatFormat(const LanguageModel& model, Options options);

  std::string begin() override;
  std::string add(size_t text, const std::string& piece,
                  std::span<const text::TokenLogprob> logprobs) override;
  std::string end(size_t text, const text::GenerateResult& result) override;
  std::string finish(const Usage& usage) override;
  Json whole(const Usage& usage) override;

 private:
  struct Choice {
    std::string content, reason;
    Json calls = Json::array(), logprobs = Json::array();
    ToolCallReader reader;
  };

  Json chunk(Json choices) const;
  std::string chunk_of(size_t text, Json delta, Json logprobs, const Json& reason) const;
  std::string take(size_t text, const ToolText& found, Json logprobs);

  const LanguageModel& model_;
  const Options options_;
  const std::string id_ = random_id("chatcmpl-");
  const int64_t created_ = seconds_now();
  std::vector<Choice> choices_;
};

// Returns the counts as OpenAI names them.
Json usage_json(const Usage& usage);

}  // namespace genesis::serving
