// The way a tokenizer.json puts special tokens around a text, or around the two texts of a pair, and which types the tokens get: its
// "post_processor". Tokenizer::encode() puts the same tokens around a single text; models that read pairs use this.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace genesis::text {

// One text, or a pair of texts, as a model reads it.
struct EncodedTexts {
  std::vector<int64_t> ids;
  std::vector<int64_t> types;  // the type of each token: by most files 1 for the second text, else 0
  int64_t dropped = 0;         // number of tokens that truncation dropped
};

struct TextTemplate {
  enum class Kind : uint8_t { kFirst, kSecond, kToken };
  struct Piece {
    Kind kind;
    int64_t id = 0;    // kToken has one
    int64_t type = 0;  // all tokens of the piece have it
  };
  std::vector<Piece> pieces;

  // Returns the number of tokens that are added to the texts.
  int64_t added() const;
  // Puts the texts into the pieces. With more than `longest` tokens (0: no limit) the texts lose tokens at their ends as in
  // `tokenizers` ("longest_first"): the longer one until both have the same length. Throws Error if `longest` leaves no room for the
  // added tokens.
  EncodedTexts apply(std::span<const int64_t> first, std::span<const int64_t> second, int64_t longest) const;
};

struct TextTemplates {
  TextTemplate single, pair;  // `pair` has no pieces if the file does not say how pairs are encoded
};

// Reads the bytes of a tokenizer.json that Tokenizer::parse() accepts. Throws Error if they are no JSON.
TextTemplates read_text_templates(std::string_view json);

}  // namespace genesis::text
