// Characters that not every distribution's libraries know: classes and composed forms are to be those of `tokenizers`,
// whatever Unicode PCRE2 and utf8proc were made with. Used by unicode.cpp and split_expression.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/character_range.h"

namespace genesis::text {

// What stands for `code` where classes are asked for; mostly `code` itself.
uint32_t stand_in(uint32_t code);

// Whether normalization is to take `code` for a character that neither moves nor composes, though it does since.
bool has_newer_form(uint32_t code);

// The same for compatibility decompositions.
bool has_newer_compatible_form(uint32_t code);

// Punctuation of `tokenizers`, with all signs of ASCII.
bool is_punctuation(uint32_t code);

// The lower case of a character that has one only since Unicode 15; else `code` itself.
uint32_t newer_lower_case(uint32_t code);

// For texts that an expression is matched with.
class StandIns {
 public:
  // What `expression` names itself, by a character or a range, is left as it is.
  explicit StandIns(std::string_view expression);
  // `text`, which must be UTF-8, with stand-ins, each at its place; where it has any, `storage` holds it.
  std::string_view in(std::string_view text, std::string& storage) const;

 private:
  std::vector<StandIn> rows_;  // sorted
};

}  // namespace genesis::text
