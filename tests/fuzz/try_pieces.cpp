#include "tests/fuzz/try_pieces.h"

#include "models/tokenizer/sentence_piece_file.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/core/error.h"

namespace genesis::testing {

bool try_pieces(const std::string& bytes) {
  try {
    const text::SentencePieceFile file = text::read_sentence_piece_file(std::as_bytes(std::span(bytes)));
    text::Tokenizer::parse(text::tokenizer_json_of(file.model)).encode(" the  light\n\nof 12 days", false);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace genesis::testing
