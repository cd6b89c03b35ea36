// Normalizes a text before it is split. "normalizer" in a tokenizer.json is a list of steps: NormalizerStep describes one,
// Normalizer runs them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer/replacement.h"
#include "models/tokenizer/unicode/characters_map.h"
#include "models/tokenizer/unicode/unicode.h"

namespace genesis::text {

struct NormalizerStep {
  enum class Kind {
    kForm,  // NFC, NFD, NFKC or NFKD
    kLowercase,
    kStrip,      // removes white space at the ends
    kPrepend,    // puts `content` in front of a text that is not empty
    kReplace,    // replaces what matches `pattern` by `content`
    kByteLevel,  // writes bytes as characters of the byte alphabet
    kCleanText,  // this and the next ones: character_filters.h
    kIdeographs,
    kNonspacingMarks,
    kMarks,
    kNmt,
    kCharactersMap,  // replaces by the map `content`, which are the bytes of characters_map.h
  };
  Kind kind = Kind::kForm;
  NormalizationForm form = NormalizationForm::kC;
  bool left = true, right = true;  // kStrip: the ends to strip
  std::string pattern;             // a text or a regular expression
  bool is_expression = false;
  std::string content;
};

class Normalizer {
 public:
  // Throws Error for a step that is not supported, and for too many steps.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  struct Result {
    std::string_view text;
    size_t origin =
        0;  // the number of leading bytes that come from the first character, as `tokenizers` counts offsets
  };
  // Returns `text`, which must be UTF-8, after all steps. If they change it, `storage` holds the result. Throws Error if that
  // exceeds the budget of `state`.
  Result normalize(std::string_view text, MatchState& state, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep description;
    std::shared_ptr<const Replacement> replacement;
    std::shared_ptr<const CharactersMap> map;
  };

  // Returns the text after a step other than kForm, kStrip, kReplace and kCharactersMap.
  static std::string changed(const Step& step, std::string_view text);
  static std::string mapped(const CharactersMap& map, std::string_view text, MatchState& state,
                            size_t& origin);
  // Returns the origin of the text that such a step, or kForm, has made of `text`.
  static size_t moved(const Step& step, std::string_view text, size_t origin);

  std::vector<Step> steps_;
};

}  // namespace genesis::text
