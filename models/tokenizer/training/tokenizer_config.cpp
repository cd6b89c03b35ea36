#include "models/tokenizer/training/tokenizer_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace genesis::text {
namespace {

// Writes each message as "<|im_start|>role
// content<|im_end|>
// ", and finally the beginning of an answer if one is asked for.
constexpr const char* kTemplate =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

}  // namespace

std::string tokenizer_config_json(const std::vector<std::string>& special_tokens) {
  const auto has = [&](const char* token) {
    return std::ranges::find(special_tokens, token) != special_tokens.end();
  };
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"clean_up_tokenization_spaces", false}};
  const bool chat = has(kTurnStart) && has(kTurnEnd);
  const char* end = chat ? kTurnEnd : has(kEndOfText) ? kEndOfText : nullptr;
  if (end) config["eos_token"] = end;
  if (has(kEndOfText)) config["pad_token"] = kEndOfText;
  if (chat) config["chat_template"] = kTemplate;
  return config.dump(2) + "\n";
}

}  // namespace genesis::text
