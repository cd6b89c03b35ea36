#include "models/tokenizer/word_decoders.h"

#include <utility>

namespace genesis::text {
namespace {

// `from` must not be empty.
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string made;
  for (size_t at = 0; at <= text.size();) {
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) return made += text.substr(at);
    made += text.substr(at, found - at);
    made += to;
    at = found + from.size();
  }
  return made;
}

std::string cleaned(std::string text) {
  static constexpr std::pair<const char*, const char*> kChanges[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kChanges)
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  return text;
}

}  // namespace

std::string metaspace_decoded(std::string_view token, const std::string& character, bool drops) {
  return replaced(token, character, drops ? "" : " ");
}

std::string word_piece_decoded(std::string_view token, const std::string& prefix, bool is_first,
                               bool cleanup) {
  std::string made;
  if (!is_first && token.starts_with(prefix))
    token.remove_prefix(prefix.size());
  else if (!is_first)
    made = " ";
  made += token;
  return cleanup ? cleaned(std::move(made)) : made;
}

std::string ctc_decoded(std::string_view token, const std::string& pad, const std::string& delimiter,
                        bool cleanup) {
  const std::string made = pad.empty() ? std::string(token) : replaced(token, pad, "");
  if (!cleanup) return made;
  const std::string clean = cleaned(made);
  return delimiter.empty() ? clean : replaced(clean, delimiter, " ");
}

}  // namespace genesis::text
