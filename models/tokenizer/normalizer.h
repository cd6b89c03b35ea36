// Normalizing a text before it is split: the steps of "normalizer" in a tokenizer.json, as a plain description and as a class
// that runs them.
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
    kForm,  // NFC, NFD, NFKC, NFKD
    kLowercase,
    kStrip,      // white space at the ends
    kPrepend,    // `content` in front of a text that is not empty
    kReplace,    // `content` for what matches `pattern`
    kByteLevel,  // bytes become characters of the byte alphabet
  };
  Kind kind = Kind::kForm;
  NormalizationForm form = NormalizationForm::kC;
  bool left = true, right = true;  // kStrip: at which ends
  std::string pattern;             // a text or an expression
  bool is_expression = false;
  std::string content;
};

class Normalizer {
 public:
  // Throws Error for a step that is not supported, and for too many.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  // `text`, which must be UTF-8, after all steps; where they change it, `storage` holds it. Throws Error where the budget of
  // `state` does not allow it.
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
