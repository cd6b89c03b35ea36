// Handles characters that the libraries of some distributions do not know: classes and composed forms must be those of
// `tokenizers`, whatever Unicode version PCRE2 and utf8proc were built with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/unicode/character_range.h"

namespace genesis::text {

// Returns the character whose class `code` has; usually `code` itself.
uint32_t stand_in(uint32_t code);

// Returns true if normalization must treat `code` as a character that neither moves nor composes, although newer versions of
// Unicode say that it does.
bool has_newer_form(uint32_t code);

// Does the same for compatibility decompositions.
bool has_newer_compatible_form(uint32_t code);

// Returns true for the punctuation of `tokenizers`, which includes all symbols of ASCII.
bool is_punctuation(uint32_t code);

// Returns the lower case of a character that has one only since Unicode 15; else `code` itself.
uint32_t newer_lower_case(uint32_t code);

// Replaces newer characters in texts that an expression is matched with.
class StandIns {
 public:
  // Characters that `expression` names, itself or in a range, are not replaced.
  explicit StandIns(std::string_view expression);
  // Returns `text`, which must be UTF-8, with stand-ins in place of newer characters; positions do not change. If it has any
  // newer character, `storage` holds the result.
  std::string_view in(std::string_view text, std::string& storage) const;

 private:
  std::vector<StandIn> rows_;  // sorted
};

}  // namespace genesis::text
