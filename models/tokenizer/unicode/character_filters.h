// Normalizers that remove or replace single characters: StripAccents, Nmt and the parts of BertNormalizer. All take and return
// UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace genesis::text {

// Removes control characters and U+FFFD, and writes each character of white space as a space: clean_text of BertNormalizer.
std::string clean_text(std::string_view text);
// Puts a space on each side of every Chinese character: handle_chinese_chars of BertNormalizer.
std::string spaced_ideographs(std::string_view text);
// Removes nonspacing marks: strip_accents of BertNormalizer, which applies NFD first.
std::string without_nonspacing_marks(std::string_view text);
// Removes marks of all kinds: StripAccents.
std::string without_marks(std::string_view text);
// Removes control characters of ASCII, and writes separators and invisible characters as a space: Nmt, of Google's neural
// translator.
std::string nmt_text(std::string_view text);

}  // namespace genesis::text
