// A context-free grammar over bytes, and a recognizer that follows a text byte by byte: what a text may be that a model writes.
//
//     grammar::Grammar g;
//     g.set_root(g.any_of({g.text("yes"), g.text("no")}));
//     grammar::Recognizer recognizer(g);
//     auto state = recognizer.next(recognizer.start(), 'y');
//
// A recognizer is a pushdown automaton that is made deterministic as it goes: a state is the set of all stacks that the text so
// far may have led to, and states that were met before are found again.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis::grammar {

using Bytes = std::bitset<256>;

// Ranges of characters, both ends included.
using Ranges = std::vector<std::pair<char32_t, char32_t>>;
// Returns the characters that are in none of the ranges. Surrogates are no characters.
Ranges complement(Ranges ranges);
// Reads the character of UTF-8 that begins at `at`, and moves `at` behind it. Empty if there is none.
std::optional<char32_t> read_character(std::string_view text, size_t& at);

class Grammar {
 public:
  // An expression: a rule of the grammar, by number. Expressions may be used several times.
  using Rule = int32_t;
  // A part of an alternative: bytes, or a rule.
  struct Symbol {
    int32_t bytes = -1;  // number of a set of bytes; -1: a rule
    Rule rule = -1;
  };
  using Sequence = std::vector<Symbol>;

  Rule text(std::string_view bytes);
  Rule one_of(const Bytes& bytes);
  // Any Unicode character of these ranges, as UTF-8.
  Rule characters(const Ranges& ranges);
  Rule sequence(const std::vector<Rule>& parts);
  Rule any_of(const std::vector<Rule>& choices);
  Rule optional(Rule part) { return any_of({text(""), part}); }
  // `part` from `least` to `most` times; a negative `most`: any number. Throws Error for more than 1000 times.
  Rule repeat(Rule part, int64_t least, int64_t most = -1);
  // Declares a rule that define() gives a meaning later, so that it may contain itself.
  Rule declare();
  void define(Rule rule, Rule meaning) { rules_[static_cast<size_t>(rule)] = {{Symbol{-1, meaning}}}; }
  void set_root(Rule rule) { root_ = rule; }

  Rule root() const { return root_; }
  const std::vector<Sequence>& alternatives(Rule rule) const { return rules_[static_cast<size_t>(rule)]; }
  const Bytes& bytes(int32_t number) const { return sets_[static_cast<size_t>(number)]; }

 private:
  Rule add(std::vector<Sequence> alternatives);
  Symbol set_of(const Bytes& bytes);

  std::vector<std::vector<Sequence>> rules_;
  std::vector<Bytes> sets_;
  Rule root_ = -1;
};

// Throws Error if the grammar exceeds a limit of size: schemas of clients are not trusted.
class Recognizer {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins so

  explicit Recognizer(Grammar grammar);
  Recognizer(const Recognizer&) = delete;
  Recognizer& operator=(const Recognizer&) = delete;

  State start() const { return start_; }
  State next(State state, unsigned char byte) {
    if (state == kDead) return kDead;
    const State found = next_[static_cast<size_t>(state)][byte];
    return found != kUnknown ? found : find_next(state, byte);
  }
  bool may_end(State state) const { return state != kDead && states_[static_cast<size_t>(state)].may_end; }

 private:
  static constexpr State kUnknown = -2;

  // The rest of an alternative, and below it the rests of those that contain it; -1 is the bottom.
  struct Frame {
    const Grammar::Sequence* sequence;
    size_t at;
    int32_t below;
    auto operator<=>(const Frame&) const = default;
  };
  struct Known {
    std::vector<int32_t> frames;  // sorted; each begins with bytes
    bool may_end = false;
  };
  // A state that is being made.
  struct Making {
    std::vector<int32_t> frames;
    bool may_end = false;
    std::set<Frame> visited;
  };

  State find_next(State state, unsigned char byte);
  void expand(Frame frame, Making& making);
  State state_of(Making making);
  int32_t number_of(const Frame& frame);

  const Grammar grammar_;
  std::map<Frame, int32_t> numbers_;
  std::vector<Frame> frames_;
  std::map<std::pair<std::vector<int32_t>, bool>, State> found_;
  std::vector<Known> states_;
  std::deque<std::array<State, 256>> next_;  // by state and byte; kUnknown: not computed yet
  State start_ = kDead;
};

}  // namespace genesis::grammar
