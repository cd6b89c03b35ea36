#include "models/generation/generate.h"

namespace genesis::text {

GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(const Piece&)>& on_piece) {
  return Generator(session).continue_with(prompt, options, on_piece);
}

std::vector<int64_t> encode_bytes(const std::string& text) {
  std::vector<int64_t> tokens;
  for (unsigned char c : text) tokens.push_back(c);
  return tokens;
}

std::string decode_bytes(const std::vector<int64_t>& tokens) {
  std::string text;
  for (int64_t token : tokens) text += static_cast<char>(token);
  return text;
}

TokenText byte_text() {
  return {.add = [](int64_t token) { return std::string(1, static_cast<char>(token)); }, .finish = {}};
}

}  // namespace genesis::text
