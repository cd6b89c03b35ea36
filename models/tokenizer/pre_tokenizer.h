// Splits a text into the words that byte-pair merges stay within, by the steps of pre_tokenizer_step.h. Encoding and training
// share this code.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer/literal.h"
#include "models/tokenizer/pre_tokenizer_step.h"
#include "models/tokenizer/split_expression.h"
#include "models/tokenizer/unicode/byte_alphabet.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {

// Matches characters by class; class 0 does not match. Adjacent characters of one class are a single match if `joins` is set,
// else each character is a match of its own.
struct CharacterMatcher {
  int (*class_of)(uint32_t code) = nullptr;
  bool joins = false;

  template <class OnPiece>
  void split(std::string_view text, const OnPiece& on_piece) const {
    size_t begin = 0;
    int last = 0;
    for (size_t at = 0; at < text.size();) {
      const utf8::Character character = utf8::first_character(text.substr(at));
      const int now = class_of(character.code);
      if (at > begin && (now != last || (now != 0 && !joins))) {
        on_piece(text.substr(begin, at - begin), last != 0);
        begin = at;
      }
      last = now;
      at += character.bytes;
    }
    if (begin < text.size()) on_piece(text.substr(begin), last != 0);
  }
};

// Joins adjacent pieces as a SplitBehavior says.
template <class OnPiece>
class PieceMerger {
 public:
  PieceMerger(SplitBehavior behavior, const OnPiece& on_piece) : behavior_(behavior), on_piece_(on_piece) {}

  void add(std::string_view piece, bool is_match) {
    if (behavior_ == SplitBehavior::kRemoved) {
      if (!is_match) on_piece_(piece);
    } else if (!held_.empty() && joins(is_match)) {
      held_ = {held_.data(), held_.size() + piece.size()};
      if (behavior_ == SplitBehavior::kMergedWithNext) finish();
    } else {
      finish();
      held_ = piece;
    }
    was_match_ = is_match;
  }

  void finish() {
    if (!held_.empty()) on_piece_(held_);
    held_ = {};
  }

 private:
  bool joins(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kContiguous:
        return is_match == was_match_;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !was_match_;
      case SplitBehavior::kMergedWithNext:
        return !is_match && was_match_;
      default:
        return false;
    }
  }

  SplitBehavior behavior_;
  const OnPiece& on_piece_;
  std::string_view held_;
  bool was_match_ = false;
};

class PreTokenizer {
 public:
  // Throws Error for an expression that is not supported, and for too many steps.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  // True if words are raw bytes, which the vocabulary writes in the byte alphabet; false if they are UTF-8 text.
  bool is_byte_level() const { return is_byte_level_; }

  // Calls `on_word` with each word, in order. `text` must be UTF-8. `origin` is the number of its leading bytes that come from the
  // first character of the whole text (Normalizer::Result), 0 for a later part. Throws Error if that exceeds the budget of `state`.
  template <class OnWord>
  void for_each_word(std::string_view text, size_t origin, MatchState& state, const OnWord& on_word) const {
    run(0, text, origin, state, on_word);
  }
  template <class OnWord>
  void for_each_word(std::string_view text, MatchState& state, const OnWord& on_word) const {
    run(0, text, text.empty() ? 0 : utf8::first_character(text).bytes, state, on_word);
  }

 private:
  // Changes a text.
  struct Write {
    enum class Kind { kSpaceInFront, kByteAlphabet, kMetaspace } kind;
    std::string character = {};  // kMetaspace: stands for a space
    PrependScheme prepend = PrependScheme::kNever;
  };
  struct Cut {
    std::variant<SplitExpression, Literal, CharacterMatcher> matcher;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  using Step = std::variant<Write, Cut>;

  void add_byte_level(const PreTokenizerStep& step, bool is_last);
  void add_metaspace(const PreTokenizerStep& step);
  // Returns the text after a step; `storage` holds it if the step changes it.
  static std::string_view written(const Write& step, std::string_view text, size_t origin,
                                  std::string& storage);

  template <class OnWord>
  void run(size_t at, std::string_view text, size_t origin, MatchState& state, const OnWord& on_word) const {
    if (text.empty()) return;
    if (at == steps_.size()) return on_word(text);
    if (const Cut* step = std::get_if<Cut>(&steps_[at]))
      return cut(*step, text, state, [&](std::string_view piece) {
        const auto before = static_cast<size_t>(piece.data() - text.data());
        run(at + 1, piece, origin - std::min(origin, before), state, on_word);
      });
    std::string storage;
    const Write& step = std::get<Write>(steps_[at]);
    if (origin > 0) origin = written(step, text.substr(0, origin), origin, storage).size();
    const std::string_view changed = written(step, text, origin, storage);
    if (changed.data() == storage.data()) state.budget.spend_bytes(changed.size());
    run(at + 1, changed, origin, state, on_word);
  }

  template <class OnPiece>
  static void cut(const Cut& step, std::string_view text, MatchState& state, const OnPiece& on_piece) {
    if (step.behavior == SplitBehavior::kIsolated)
      return split(step, text, state, [&](std::string_view piece, bool) { on_piece(piece); });
    PieceMerger<OnPiece> merger(step.behavior, on_piece);
    split(step, text, state,
          [&](std::string_view piece, bool is_match) { merger.add(piece, is_match != step.invert); });
    merger.finish();
  }

  template <class OnPiece>
  static void split(const Cut& step, std::string_view text, MatchState& state, const OnPiece& on_piece) {
    if (const auto* expression = std::get_if<SplitExpression>(&step.matcher))
      expression->split(text, state, on_piece);
    else if (const auto* literal = std::get_if<Literal>(&step.matcher))
      literal->split(text, on_piece);
    else
      std::get<CharacterMatcher>(step.matcher).split(text, on_piece);
  }

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

}  // namespace genesis::text
