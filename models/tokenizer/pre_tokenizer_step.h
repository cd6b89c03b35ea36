// Describes how a text is split into words before byte-pair merges: the steps of "pre_tokenizer" in a tokenizer.json.
// `pre_tokenizer.h` runs them, `patterns.h` writes them as JSON, `pipeline_file.h` reads them.
#pragma once

#include <string>
#include <utility>

namespace genesis::text {

// Decides what happens to the matches of a step. The names are those of tokenizer.json.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Decides to which pieces Metaspace adds its character in front. A piece that begins with it stays as it is.
enum class PrependScheme {
  kAlways,
  kFirst,  // only to the piece that begins the text
  kNever,
};

struct PreTokenizerStep {
  enum class Kind {
    kExpression,   // Split: matches of the regular expression `pattern`
    kLiteral,      // Split, CharDelimiterSplit: matches of the text `pattern`
    kDigits,       // Digits: matches are single numeric characters
    kPunctuation,  // Punctuation: matches are single characters of punctuation, including all symbols of ASCII
    kWords,        // Whitespace: matches are runs of word characters, and of others but white space
    kWhiteSpace,   // WhitespaceSplit: matches are single characters of white space
    kByteLevel,    // ByteLevel: adds a leading space, splits as GPT-2, writes in the byte alphabet
    kMetaspace,    // Metaspace: writes spaces as the character `pattern`, splits before each of these
  };
  Kind kind = Kind::kExpression;
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;            // text between matches takes the role of the matches
  bool add_prefix_space = false;  // kByteLevel: adds a space to a piece that does not begin with one
  bool use_regex = true;          // kByteLevel: splits with kGpt2Pattern
  PrependScheme prepend = PrependScheme::kAlways;  // kMetaspace
  bool splits = true;                              // kMetaspace: false: writes spaces only
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

inline PreTokenizerStep metaspace_step(PrependScheme prepend, bool splits, std::string character = "\u2581") {
  return {.kind = PreTokenizerStep::Kind::kMetaspace,
          .pattern = std::move(character),
          .prepend = prepend,
          .splits = splits};
}

inline PreTokenizerStep byte_level_step(bool use_regex, bool add_prefix_space = false) {
  return {.kind = PreTokenizerStep::Kind::kByteLevel,
          .add_prefix_space = add_prefix_space,
          .use_regex = use_regex};
}

}  // namespace genesis::text
