// A template's text as tokens, as Jinja cuts it with trim_blocks and lstrip_blocks, which transformers renders chat templates
// with: a line that holds a block and nothing else leaves nothing behind.
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
  std::string text;  // of a string: what it means; of an operator: its signs
  int line = 1;
};

// Ends with a token kEnd. Throws Error with the line of what is no token.
std::vector<Token> tokenize(std::string_view source);

}  // namespace genesis::jinja
