#include "tools/text/answer_json.h"

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

nlohmann::ordered_json answer_json(const std::string& prompt, const text::GenerateResult& result) {
  nlohmann::ordered_json json = {{"prompt", prompt},
                                 {"text", result.text},
                                 {"tokens", result.tokens},
                                 {"stop", name_of(result.stop_reason)}};
  if (!result.stop_string.empty()) json["stop_string"] = result.stop_string;
  if (!result.logprobs.empty()) json["logprobs"] = logprobs_json(result.logprobs);
  return json;
}

}  // namespace genesis::tools
