#include "models/serving/token_logprobs.h"

#include <algorithm>

namespace genesis::serving {
namespace {

Json token_json(const LanguageModel& model, const text::TokenLogprob& token) {
  const std::string bytes = model.token_bytes(token.token);
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", bytes}, {"logprob", std::max(token.logprob, kMinLogprob)}, {"bytes", std::move(list)}};
}

}  // namespace

Json logprobs_json(const LanguageModel& model, std::span<const text::TokenLogprob> logprobs) {
  Json all = Json::array();
  for (const text::TokenLogprob& token : logprobs) {
    Json top = Json::array();
    for (const text::TokenLogprob& other : token.top) top.push_back(token_json(model, other));
    all.push_back(token_json(model, token));
    all.back()["top_logprobs"] = std::move(top);
  }
  return all;
}

}  // namespace genesis::serving
