#include "models/tokenizer/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "models/tokenizer/replacement.h"
#include "models/tokenizer/unicode/byte_alphabet.h"
#include "models/tokenizer/word_decoders.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr size_t kMaxSteps = 64;
constexpr const char* kUnreadable = "\ufffd";

using Kind = DecoderStep::Kind;

std::string bytes_of(std::string_view token) { return alphabet_bytes(token).value_or(std::string(token)); }

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Returns the byte of a token like "<0x4A>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = token[3] == '+' ? 0 : digit_of(token[3]), low = digit_of(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

// Returns `text` without up to `start` and `stop` occurrences of a character at its ends.
std::string_view without(std::string_view text, const std::string& character, size_t start, size_t stop) {
  for (size_t i = 0; i < start && text.starts_with(character); ++i) text.remove_prefix(character.size());
  for (size_t i = 0; i < stop && text.ends_with(character); ++i) text.remove_suffix(character.size());
  return text;
}

}  // namespace

struct Decoder::Step {
  DecoderStep description;
  bool is_one_text = false;  // its inputs are chunks of one text; else each is a whole token
  bool waits = false;        // it needs the complete text
  std::shared_ptr<const Replacement> replacement;
};

Decoder::~Decoder() = default;

// ByteLevel and Fuse join all tokens to one text. Some steps behind them need all of it.
Decoder::Decoder(const std::vector<DecoderStep>& steps, bool joins_with_spaces)
    : joins_with_spaces_(joins_with_spaces) {
  if (steps.size() > kMaxSteps) fail("a decoder of {} steps, the limit is {}", steps.size(), kMaxSteps);
  bool is_one_text = false;
  for (const DecoderStep& description : steps) {
    const Kind kind = description.kind;
    Step step{description, is_one_text, false, nullptr};
    step.waits = is_one_text && (kind == Kind::kByteLevel || kind == Kind::kByteFallback ||
                                 kind == Kind::kCtc || (kind == Kind::kWordPiece && description.cleanup) ||
                                 (kind == Kind::kReplace && description.is_expression));
    if (kind == Kind::kReplace)
      step.replacement = std::make_shared<const Replacement>(description.pattern, description.is_expression,
                                                             description.content);
    if (kind == Kind::kStrip && description.content.empty())
      fail("'Strip' has no character that it takes away");
    is_one_text |= kind == Kind::kByteLevel || kind == Kind::kFuse;
    steps_.push_back(std::move(step));
  }
}

void Decoder::add(std::string_view token, State& state, std::string& out) const {
  state.held.resize(steps_.size());
  if (joins_with_spaces_ && state.has_token) out += ' ';
  state.has_token = true;
  state.growth.add(token.size());
  feed(0, token, state, out);
}

void Decoder::finish(State& state, std::string& out) const {
  state.held.resize(steps_.size());
  for (size_t at = 0; at < steps_.size(); ++at) end(at, state, out);
  state = {};
}

void Decoder::feed(size_t at, std::string_view piece, State& state, std::string& out) const {
  if (at == steps_.size()) {
    out += piece;
    return;
  }
  const Step& step = steps_[at];
  State::Held& held = state.held[at];
  if (step.waits) {
    held.text += piece;
    return;
  }
  switch (step.description.kind) {
    case Kind::kByteLevel:
      return feed_bytes(at, bytes_of(piece), state, out);
    case Kind::kByteFallback:
      return feed_byte_token(at, piece, state, out);
    case Kind::kFuse:
      return feed(at + 1, piece, state, out);
    case Kind::kReplace:
      return feed_grown(at, piece.size(), replaced(at, piece, held), state, out);
    case Kind::kStrip:
      return feed(at + 1, stripped(at, piece, held), state, out);
    case Kind::kMetaspace:
    case Kind::kWordPiece:
    case Kind::kCtc:
      return feed_word(at, piece, state, out);
  }
}

// A step sees one text as a single token, which is the first one.
void Decoder::feed_word(size_t at, std::string_view token, State& state, std::string& out) const {
  const DecoderStep& step = steps_[at].description;
  State::Held& held = state.held[at];
  const bool is_first = steps_[at].is_one_text || !std::exchange(held.is_inside, true);
  if (step.kind == Kind::kMetaspace)
    return feed_grown(at, token.size(), metaspace_decoded(token, step.pattern, is_first && step.start > 0),
                      state, out);
  if (step.kind == Kind::kWordPiece)
    return feed_grown(at, token.size(), word_piece_decoded(token, step.pattern, is_first, step.cleanup),
                      state, out);
  if (!is_first && held.text == token) return;
  held.text = token;
  const std::string made = ctc_decoded(token, step.pattern, step.content, step.cleanup);
  if (!made.empty()) feed_grown(at, token.size(), made, state, out);
}

// Charges what a step adds, to catch steps that each double a text.
void Decoder::feed_grown(size_t at, size_t bytes, std::string_view made, State& state,
                         std::string& out) const {
  if (made.size() > bytes) state.growth.spend_bytes(made.size() - bytes);
  feed(at + 1, made, state, out);
}

void Decoder::feed_bytes(size_t at, std::string_view bytes, State& state, std::string& out) const {
  std::string& held = state.held[at].text;
  held += bytes;
  const size_t whole = utf8::whole_characters(held);
  const std::string text = utf8::repaired(std::string_view(held).substr(0, whole));
  held.erase(0, whole);
  feed(at + 1, text, state, out);
}

void Decoder::feed_byte_token(size_t at, std::string_view token, State& state, std::string& out) const {
  if (const auto byte = byte_of(token)) {
    state.held[at].text += *byte;
    return;
  }
  flush_byte_tokens(at, state, out);
  feed(at + 1, token, state, out);
}

// A run of bytes that is not valid UTF-8 becomes one U+FFFD for each byte.
void Decoder::flush_byte_tokens(size_t at, State& state, std::string& out) const {
  const std::string bytes = std::exchange(state.held[at].text, {});
  if (bytes.empty()) return;
  if (utf8::is_valid(bytes)) return feed(at + 1, bytes, state, out);
  for (size_t i = 0; i < bytes.size(); ++i) feed(at + 1, kUnreadable, state, out);
}

// Replaces matches in a piece. Within one text, holds back a suffix that could be the beginning of the literal; it is represented
// by its length alone.
std::string Decoder::replaced(size_t at, std::string_view piece, State::Held& held) const {
  const Replacement& replacement = *steps_[at].replacement;
  if (!steps_[at].is_one_text) {
    MatchState state;
    state.budget.begin(piece.size());
    return replacement.in(piece, state);
  }
  const Literal& literal = *replacement.literal();
  std::string out;
  for (const char byte : piece) {
    const size_t before = held.count;
    held.count = literal.next(before, byte);
    out += literal.text().substr(0, before + 1 - held.count - (held.count == 0 ? 1 : 0));
    if (held.count == 0) out += byte;
    if (held.count == literal.text().size()) {
      out += replacement.content();
      held.count = 0;
    }
  }
  return out;
}

// Strips a piece. Within one text, counts the characters removed at the start, and holds back those at the end.
std::string Decoder::stripped(size_t at, std::string_view piece, State::Held& held) const {
  const DecoderStep& step = steps_[at].description;
  if (!steps_[at].is_one_text) return std::string(without(piece, step.content, step.start, step.stop));
  while (!held.is_inside && held.count < step.start && piece.starts_with(step.content)) {
    piece.remove_prefix(step.content.size());
    ++held.count;
  }
  if (!piece.empty()) held.is_inside = true;
  std::string all = held.text + std::string(piece);
  const size_t kept = without(all, step.content, 0, step.stop).size();
  held.text = all.substr(kept);
  all.resize(kept);
  return all;
}

void Decoder::end(size_t at, State& state, std::string& out) const {
  const Step& step = steps_[at];
  State::Held& held = state.held[at];
  if (step.waits) {
    const std::string text = std::exchange(held.text, {});
    if (step.description.kind == Kind::kByteLevel)
      return feed(at + 1, utf8::repaired(bytes_of(text)), state, out);
    if (step.description.kind == Kind::kByteFallback) {
      feed_byte_token(at, text, state, out);
      return flush_byte_tokens(at, state, out);
    }
    if (step.description.kind != Kind::kReplace) return feed_word(at, text, state, out);
    MatchState matches;
    matches.budget.begin(text.size());
    return feed_grown(at, text.size(), step.replacement->in(text, matches), state, out);
  }
  switch (step.description.kind) {
    case Kind::kByteLevel:
      return feed(at + 1, utf8::repaired(std::exchange(held.text, {})), state, out);
    case Kind::kByteFallback:
      return flush_byte_tokens(at, state, out);
    case Kind::kReplace:
      if (held.count > 0) feed(at + 1, step.replacement->literal()->text().substr(0, held.count), state, out);
      return;
    case Kind::kFuse:
    case Kind::kStrip:
    case Kind::kMetaspace:
    case Kind::kWordPiece:
    case Kind::kCtc:
      return;
  }
}

}  // namespace genesis::text
