// Restricts the tokens of a text to those that a grammar allows next.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "models/grammar/grammar.h"

namespace genesis::grammar {

// The tokens of a vocabulary by their bytes, as trees: tokens that begin alike are decided together. Most tokens are made of characters
// that a string of JSON may have as they are: where these change nothing, such as inside of a string, all of those tokens are allowed
// at once (the slices of llguidance). Immutable, so that all texts share one.
class TokenTree {
 public:
  // `bytes[t]`: the bytes of token t; empty for tokens that no text has, such as special ones.
  explicit TokenTree(const std::vector<std::string>& bytes);

  const std::string& bytes(int64_t token) const { return bytes_[static_cast<size_t>(token)]; }
  int64_t size() const { return std::ssize(bytes_); }
  // Sets the tokens that may follow in this state.
  void allow(Recognizer& recognizer, Recognizer::State state, std::vector<bool>& allowed) const;

 private:
  // A byte behind others: the beginning of the tokens of a range of nodes.
  struct Node {
    uint8_t byte = 0;
    uint32_t depth = 0;                   // bytes before it
    uint32_t end = 0;                     // the first node behind those that begin so
    uint32_t tokens = 0, tokens_end = 0;  // range of tokens_ that end here
  };
  struct Tree {
    std::vector<int64_t> tokens;  // in the order of their bytes
    std::vector<Node> nodes;      // a node, then those below it
  };
  void add_nodes(Tree& tree) const;
  void walk(const Tree& tree, Recognizer& recognizer, Recognizer::State state,
            std::vector<bool>& allowed) const;

  std::vector<std::string> bytes_;
  Tree plain_, others_;  // tokens of plain characters alone, and those with any other byte
  std::vector<bool> is_plain_;
  size_t longest_ = 0;
};

// A grammar with the masks of the states that texts have met. Texts with the same grammar share one; any thread may use it.
class TokenMasks {
 public:
  using Mask = std::vector<bool>;
  // `ends`: the tokens that end a text. They are allowed where the grammar may end, and where nothing else is possible. Throws
  // Error if the grammar exceeds a limit of size.
  TokenMasks(std::shared_ptr<const TokenTree> tree, Grammar grammar, std::vector<int64_t> ends);

  Recognizer::State start() const { return recognizer_.start(); }
  // Returns the state behind a token. A grammar that has grown too large has no more texts.
  Recognizer::State next(Recognizer::State state, int64_t token);
  // Returns the tokens that may follow; valid while the caller holds it.
  std::shared_ptr<const Mask> allowed(Recognizer::State state);

 private:
  std::shared_ptr<const Mask> made(Recognizer::State state);

  const std::shared_ptr<const TokenTree> tree_;
  const std::vector<int64_t> ends_;
  std::mutex mutex_;
  Recognizer recognizer_;
  std::map<Recognizer::State, std::shared_ptr<const Mask>> masks_;
};

// Follows one text. One thread at a time may use it.
class Constraint {
 public:
  explicit Constraint(std::shared_ptr<TokenMasks> masks)
      : masks_(std::move(masks)), state_(masks_->start()) {}

  // Adds -infinity for each token that must not follow the tokens that were chosen (SamplingOptions::constraint).
  void apply(std::span<const int64_t> chosen, std::span<float> bias);

 private:
  const std::shared_ptr<TokenMasks> masks_;
  Recognizer::State state_;
  size_t read_ = 0;  // tokens that the state has
};

}  // namespace genesis::grammar
