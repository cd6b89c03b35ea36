// Decodes tokens to text. "decoder" in a tokenizer.json is a list of steps: DecoderStep describes one, Decoder runs them token by
// token.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/words/work_budget.h"

namespace genesis::text {

class MatchState;
class Replacement;

struct DecoderStep {
  enum class Kind {
    kByteLevel,     // characters of the byte alphabet become bytes
    kByteFallback,  // runs of tokens like "<0x41>" become the characters that their bytes encode
    kFuse,          // joins the tokens to one text for the following steps
    kReplace,       // replaces what matches `pattern` by `content`
    kStrip,         // removes up to `start` and `stop` characters `content` from the ends
    kMetaspace,     // the character `pattern` becomes a space; with `start`, it vanishes from the first token
    kWordPiece,  // removes the prefix `pattern`; a token without it gets a space in front, except the first one
    kCtc,        // drops repeated tokens and texts `pattern`; `content` becomes a space if `cleanup` is set
  };
  Kind kind = Kind::kByteLevel;
  std::string pattern;  // a text or a regular expression
  bool is_expression = false;
  std::string content;
  size_t start = 0, stop = 0;
  bool cleanup = false;  // kWordPiece, kCtc: removes spaces before punctuation and English contractions
};

class Decoder {
 public:
  // The text that steps hold back until more tokens arrive. Each decoding has its own state.
  struct State {
    struct Held {
      std::string text;
      size_t count =
          0;  // kReplace: bytes of the literal that the text ends with; kStrip: characters removed at the start
      bool is_inside =
          false;  // kStrip: text other than removed characters has begun; word steps: a token came before
    };
    std::vector<Held> held;  // by step
    bool has_token = false;
    WorkBudget growth;  // limits the text that all steps may add to the tokens so far
  };

  // With `joins_with_spaces`, tokens are separated by spaces. Throws Error for a step that is not supported.
  explicit Decoder(const std::vector<DecoderStep>& steps, bool joins_with_spaces = false);
  ~Decoder();

  // Appends the text that is complete by now. Throws Error if a step expands a token too much.
  void add(std::string_view token, State& state, std::string& out) const;
  // Appends the text that was held back, at the end of decoding.
  void finish(State& state, std::string& out) const;

 private:
  struct Step;

  void feed(size_t at, std::string_view piece, State& state, std::string& out) const;
  void feed_grown(size_t at, size_t bytes, std::string_view made, State& state, std::string& out) const;
  void feed_bytes(size_t at, std::string_view piece, State& state, std::string& out) const;
  void feed_byte_token(size_t at, std::string_view token, State& state, std::string& out) const;
  void flush_byte_tokens(size_t at, State& state, std::string& out) const;
  std::string replaced(size_t at, std::string_view piece, State::Held& held) const;
  std::string stripped(size_t at, std::string_view piece, State::Held& held) const;
  void feed_word(size_t at, std::string_view token, State& state, std::string& out) const;
  void end(size_t at, State& state, std::string& out) const;

  std::vector<Step> steps_;
  bool joins_with_spaces_;
};

}  // namespace genesis::text
