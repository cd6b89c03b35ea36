// Normalizes a text before it is split. "normalizer" in a tokenizer.json is a list of steps: NormalizerStep describes one,
// Normalizer runs them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer/replacement.h"
#include "models/tokenizer/unicode.h"

namespace genesis::text {

struct NormalizerStep {
  enum class Kind {
    kForm,  // NFC, NFD, NFKC or NFKD
    kLowercase,
    kStrip,      // removes white space at the ends
    kPrepend,    // puts `content` in front of a text that is not empty
    kReplace,    // replaces what matches `pattern` by `content`
    kByteLevel,  // writes bytes as characters of the byte alphabet
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

  // Returns `text`, which must be UTF-8, after all steps. If they change it, `storage` holds the result. Throws Error if that
  // exceeds the budget of `state`.
  std::string_view normalize(std::string_view text, MatchState& state, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep description;
    std::shared_ptr<const Replacement> replacement;
  };

  static std::string changed(const Step& step, std::string_view text, MatchState& state);

  std::vector<Step> steps_;
};

}  // namespace genesis::text
