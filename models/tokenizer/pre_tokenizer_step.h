// A plain description of how a text is cut into words ahead of byte-pair merges: the steps of "pre_tokenizer" in a
// tokenizer.json. `pre_tokenizer.h` runs it, `patterns.h` writes it as JSON, `pipeline_file.h` reads it.
#pragma once

#include <string>
#include <utility>

namespace genesis::text {

// Decides what happens to the matches of a step. The names are those of tokenizer.json.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct PreTokenizerStep {
  enum class Kind {
    kExpression,   // Split by a regular expression in `pattern`
    kLiteral,      // Split by the text in `pattern`; CharDelimiterSplit
    kDigits,       // matches are single numeric characters
    kPunctuation,  // matches are single characters of punctuation, all of ASCII's included
    kWords,  // Whitespace: matches are runs of word characters, and runs of what is neither that nor white space
    kWhiteSpace,  // WhitespaceSplit: matches are single characters of white space
    kByteLevel,   // puts a space in front, cuts as GPT-2 does, then writes bytes in the byte alphabet
  };
  Kind kind = Kind::kExpression;
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;            // what lies between matches counts as the matches
  bool add_prefix_space = false;  // kByteLevel: a piece that begins with no space gets one
  bool use_regex = true;          // kByteLevel: it cuts with kGpt2Pattern
};

inline PreTokenizerStep split_step(std::string expression) { return {.pattern = std::move(expression)}; }

// Digits: each numeric character is a word, or each run of them.
inline PreTokenizerStep digits_step(bool individual_digits) {
  return {.kind = PreTokenizerStep::Kind::kDigits,
          .behavior = individual_digits ? SplitBehavior::kIsolated : SplitBehavior::kContiguous};
}

inline PreTokenizerStep punctuation_step(SplitBehavior behavior = SplitBehavior::kIsolated) {
  return {.kind = PreTokenizerStep::Kind::kPunctuation, .behavior = behavior};
}

inline PreTokenizerStep byte_level_step(bool use_regex, bool add_prefix_space = false) {
  return {.kind = PreTokenizerStep::Kind::kByteLevel,
          .add_prefix_space = add_prefix_space,
          .use_regex = use_regex};
}

}  // namespace genesis::text
