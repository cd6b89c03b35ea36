// The alphabet in which byte-level vocabularies write bytes as text (GPT-2, Radford et al. 2019): printable bytes of Latin-1 are
// their own characters, the others are U+0100, U+0101 and so on in order. A space is U+0120.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace genesis::text {

std::string alphabet_text(std::string_view bytes);
// Returns nothing if `text` has a character that stands for no byte.
std::optional<std::string> alphabet_bytes(std::string_view text);

}  // namespace genesis::text
