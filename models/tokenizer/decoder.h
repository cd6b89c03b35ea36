// Decoding tokens to text: the steps of "decoder" in a tokenizer.json, as a plain description and as a class that runs them
// token by token.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/work_budget.h"

namespace genesis::text {

class MatchState;
class Replacement;

struct DecoderStep {
  enum class Kind {
    kByteLevel,     // characters of the byte alphabet become bytes
    kByteFallback,  // runs of tokens "<0x41>" become the characters that these bytes are
    kFuse,          // the tokens become one, for the steps that follow
    kReplace,       // `content` for what matches `pattern`
    kStrip,         // at most `start` and `stop` characters `content` at the ends
  };
  Kind kind = Kind::kByteLevel;
  std::string pattern;  // a text or an expression
  bool is_expression = false;
  std::string content;
  size_t start = 0, stop = 0;
};

class Decoder {
 public:
  // Text that steps hold back until more tokens arrive. Each decoding has its own state.
  struct State {
    struct Held {
      std::string text;
      size_t count =
          0;  // kReplace: bytes of the literal that the text ends with; kStrip: characters taken at the start
      bool is_inside = false;  // kStrip: behind the start
    };
    std::vector<Held> held;  // by step
    bool has_token = false;
    WorkBudget growth;  // what all steps together may make of the tokens so far
  };

  // Without steps, and `joins_with_spaces`, tokens have a space between them. Throws Error for a step that is not supported.
  explicit Decoder(const std::vector<DecoderStep>& steps, bool joins_with_spaces = false);
  ~Decoder();

  // Appends the text that is whole by now. Throws Error where a step makes too much of a token.
  void add(std::string_view token, State& state, std::string& out) const;
  // Appends what is held back, at the end.
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
  void end(size_t at, State& state, std::string& out) const;

  std::vector<Step> steps_;
  bool joins_with_spaces_;
};

}  // namespace genesis::text
