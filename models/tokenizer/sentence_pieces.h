// Writes the tokenizers of SentencePiece and of llama.cpp's files, which are lists of pieces with scores and types, as a
// tokenizer.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace genesis::text {

// The numbers are those of SentencePiece and llama.cpp.
enum class PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SentencePiece {
  std::string text;  // U+2581 stands for a space; UTF-8
  double score = 0;
  PieceType type = PieceType::kNormal;
  bool strips_right = false;  // kControl, kUserDefined: includes the white space behind it
};

struct SentencePieces {
  enum class Kind {
    kBpe,        // adjacent pieces are merged, those that make the piece with the highest score first
    kUnigram,    // the sum of the scores is as high as possible
    kWordPiece,  // BERT in lower case: pieces that begin a word begin with U+2581, and scores do not matter
  };
  Kind kind = Kind::kBpe;
  std::vector<SentencePiece> pieces;  // by id
  std::optional<int64_t> unk_id;
  std::vector<int64_t> prefix, suffix;  // ids around every text
  bool adds_space = true;      // kBpe, kUnigram: a space comes before every text, and behind special tokens
  bool merges_spaces = false;  // removes spaces at the ends of a text, and all but one of adjacent ones
  std::string characters_map;  // "precompiled_charsmap" (characters_map.h); empty: none
};

// Returns the tokenizer.json. Pieces of the types unknown, control and user-defined become added tokens. Throws Error that names
// the piece or the id that is invalid.
std::string tokenizer_json_of(const SentencePieces& model);

}  // namespace genesis::text
