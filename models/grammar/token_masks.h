// Restricts the tokens of a text to those that a grammar allows next.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/grammar/grammar.h"

namespace genesis::grammar {

// The tokens of a vocabulary by their bytes, as a tree: tokens that begin alike are decided together. Immutable, so that all
// texts share one.
class TokenTree {
 public:
  // `bytes[t]`: the bytes of token t; empty for tokens that no text has, such as special ones.
  explicit TokenTree(const std::vector<std::string>& bytes);

  const std::string& bytes(int64_t token) const { return bytes_[static_cast<size_t>(token)]; }
  int64_t size() const { return std::ssize(bytes_); }
  // Sets the tokens that may follow in this state.
  void allow(Recognizer& recognizer, Recognizer::State state, std::vector<bool>& allowed) const;

 private:
  std::vector<std::string> bytes_;
  std::vector<int64_t> order_;  // tokens in the order of their bytes
};

// Follows one text. One thread at a time may use it.
class Constraint {
 public:
  // `ends`: the tokens that end a text. They are allowed where the grammar may end, and where nothing else is possible.
  Constraint(std::shared_ptr<const TokenTree> tree, Grammar grammar, std::vector<int64_t> ends);

  // Adds -infinity for each token that must not follow the tokens that were chosen (SamplingOptions::constraint).
  void apply(std::span<const int64_t> chosen, std::span<float> bias);

 private:
  const std::vector<bool>& allowed();

  const std::shared_ptr<const TokenTree> tree_;
  const std::vector<int64_t> ends_;
  Recognizer recognizer_;
  Recognizer::State state_;
  size_t read_ = 0;  // tokens that the state has
  std::map<Recognizer::State, std::vector<bool>> masks_;
};

}  // namespace genesis::grammar
