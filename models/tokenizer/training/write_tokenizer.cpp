#include "models/tokenizer/training/write_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace genesis::text {
namespace {

using nlohmann::ordered_json;

ordered_json added_tokens(const LearnedBpe& learned, const std::vector<std::string>& special_tokens) {
  ordered_json added = ordered_json::array();
  for (const std::string& token : special_tokens) {
    const auto at = std::ranges::find(learned.tokens, token);
    added.push_back(added_token_json(at - learned.tokens.begin(), token, true));
  }
  return added;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Writes the vocabulary as text: a JSON tree with this many objects is large, and one that keeps their order is slow.
std::string vocabulary_text(const LearnedBpe& learned) {
  std::string text = "{";
  for (size_t id = 0; id < learned.tokens.size(); ++id)
    text += (id == 0 ? "" : ",") + quoted(learned.tokens[id]) + ":" + std::to_string(id);
  return text + "}";
}

std::string merges_text(const LearnedBpe& learned) {
  std::string text = "[";
  for (const auto& [left, right] : learned.merges)
    text += (text.size() == 1 ? "[" : ",[") + quoted(learned.tokens[left]) + "," +
            quoted(learned.tokens[right]) + "]";
  return text + "]";
}

}  // namespace

std::string tokenizer_json(const LearnedBpe& learned, const Pattern& pattern,
                           const std::vector<std::string>& special_tokens) {
  const ordered_json about =
      pipeline_json(added_tokens(learned, special_tokens), pattern, byte_level_json(false));
  std::string text = about.dump();
  text.back() = ',';  // more members follow
  text += "\"model\":" + bpe_json(false).dump();
  text.back() = ',';
  return text + "\"vocab\":" + vocabulary_text(learned) + ",\"merges\":" + merges_text(learned) + "}}\n";
}

}  // namespace genesis::text
