// Iterates over the tokens of a template, for the parsers of expressions and of statements.
#pragma once

#include <vector>

#include "models/chat/jinja/syntax/lexer.h"
#include "schema/core/error.h"

namespace genesis::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  int line() const { return peek().line; }
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_sign(std::string_view sign) const { return is(TokenKind::kOperator) && peek().text == sign; }
  bool is_name(std::string_view name, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kName && peek(ahead).text == name;
  }
  const Token& next() {
    const Token& token = peek();
    at_ = std::min(at_ + 1, tokens_.size() - 1);
    return token;
  }
  bool skip_sign(std::string_view sign) { return is_sign(sign) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }

  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) fail_expected("'" + std::string(sign) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected("'" + std::string(name) + "'");
  }
  void expect(TokenKind kind, const char* what) {
    if (!is(kind)) fail_expected(what);
    next();
  }
  std::string any_name(const char* what) {
    if (!is(TokenKind::kName)) fail_expected(what);
    return next().text;
  }
  [[noreturn]] void fail_expected(const std::string& what) const {
    fail("line {}: expected {}, got {}", line(), what,
         is(TokenKind::kEnd) ? peek().text : "'" + peek().text + "'");
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace genesis::jinja
