// Reads tokenizer.model, the file of SentencePiece: a protobuf message of pieces and of how texts are prepared
// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto). The file is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/tokenizer/sentence_pieces.h"

namespace genesis::text {

struct SentencePieceFile {
  SentencePieces model;                // puts nothing around a text
  int64_t begin_id = -1, end_id = -1;  // tokens that the file has for it; -1: none
};

// Throws Error if the bytes are no such message, or if the model is one of whole words or characters, or has spaces in a form that
// no tokenizer.json has.
SentencePieceFile read_sentence_piece_file(std::span<const std::byte> bytes);

}  // namespace genesis::text
