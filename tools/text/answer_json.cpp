#include "tools/text/answer_json.h"

#include <fmt/core.h>

namespace genesis::tools {
namespace {

nlohmann::ordered_json logprobs_json(const std::vector<text::TokenLogprob>& logprobs) {
  auto list = nlohmann::ordered_json::array();
  for (const text::TokenLogprob& logprob : logprobs) {
    nlohmann::ordered_json object = {{"token", logprob.token}, {"logprob", logprob.logprob}};
    if (!logprob.top.empty()) object["top"] = logprobs_json(logprob.top);
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace

double per_second(int64_t tokens, double seconds) {
  return tokens > 0 && seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

nlohmann::ordered_json answer_json(const text::Prompt& prompt, const text::GenerateResult& result) {
  nlohmann::ordered_json json = {{"prompt", prompt.text}};
  if (prompt.tokens) json["prompt_ids"] = *prompt.tokens;
  json.update({{"text", result.text}, {"tokens", result.tokens}, {"stop", name_of(result.stop_reason)}});
  if (!result.stop_string.empty()) json["stop_string"] = result.stop_string;
  if (!result.logprobs.empty()) json["logprobs"] = logprobs_json(result.logprobs);
  json.update(drafts_json(result));
  return json;
}

nlohmann::ordered_json drafts_json(const text::GenerateResult& result) {
  if (result.drafted == 0) return nlohmann::ordered_json::object();
  return {{"steps", result.steps},
          {"drafted", result.drafted},
          {"accepted", result.accepted},
          {"tokens_per_step", static_cast<double>(result.tokens.size()) / static_cast<double>(result.steps)}};
}

std::string drafts_text(int64_t tokens, int64_t steps, int64_t drafted, int64_t accepted) {
  if (drafted == 0) return "";
  return fmt::format(", {:.2f} tokens a step, {} of {} drafted tokens accepted",
                     static_cast<double>(tokens) / static_cast<double>(steps), accepted, drafted);
}

}  // namespace genesis::tools
