// Splits a template into tokens as Jinja does with trim_blocks and lstrip_blocks, which transformers sets for chat templates: a
// line that holds only a block tag produces no text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace genesis::jinja {

enum class TokenKind {
  kText,
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind;
  std::string text;  // a string: its value without escapes; an operator: its characters
  int line = 1;
};

// Returns the tokens; the last is kEnd. Throws Error with the line of an invalid token.
std::vector<Token> tokenize(std::string_view source);

}  // namespace genesis::jinja
