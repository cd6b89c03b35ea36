#include "models/tokenizer/sentence_piece_file.h"

#include "schema/core/error.h"
#include "schema/file/other_formats/proto_reader.h"

namespace genesis::text {
namespace {

constexpr const char* kSpace = "\u2581";

bool is_set(const ProtoField& field) { return field.integer != 0; }

// User-defined pieces are searched in the text itself, where U+2581 is a space.
std::string with_spaces(std::string text) {
  const size_t size = std::string_view(kSpace).size();
  for (size_t at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace, at + 1))
    text.replace(at, size, " ");
  return text;
}

SentencePiece read_piece(const ProtoMessage& message, size_t id) {
  SentencePiece piece;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) piece.text = field.text();
    if (field.number == 2) piece.score = static_cast<double>(field.as_float());
    if (field.number != 3) return;
    if (field.integer < 1 || field.integer > 6)
      fail("the type of piece {} is {}, expected 1 to 6", id, field.integer);
    piece.type = static_cast<PieceType>(field.integer);
  });
  if (piece.type == PieceType::kUserDefined) piece.text = with_spaces(piece.text);
  return piece;
}

// A file without an entry has the standard values of SentencePiece.
void read_trainer(const ProtoMessage& message, SentencePieceFile& file) {
  uint64_t kind = 1;
  int64_t unknown = 0;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 3) kind = field.integer;
    if (field.number == 24 && is_set(field)) fail("its spaces follow the words (treat_whitespace_as_suffix)");
    if (field.number == 40) unknown = static_cast<int32_t>(field.as_signed());
    if (field.number == 41) file.begin_id = static_cast<int32_t>(field.as_signed());
    if (field.number == 42) file.end_id = static_cast<int32_t>(field.as_signed());
  });
  if (kind != 1 && kind != 2)
    fail("it is a model of kind {} (model_type), expected 1, unigram, or 2, BPE", kind);
  file.model.kind = kind == 1 ? SentencePieces::Kind::kUnigram : SentencePieces::Kind::kBpe;
  if (unknown >= 0) file.model.unk_id = unknown;
}

void read_normalizer(const ProtoMessage& message, SentencePieces& model) {
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 2) model.characters_map = field.text();
    if (field.number == 3) model.adds_space = is_set(field);
    if (field.number == 4) model.merges_spaces = is_set(field);
    if (field.number == 5 && !is_set(field)) fail("its pieces have plain spaces (escape_whitespaces)");
  });
}

}  // namespace

SentencePieceFile read_sentence_piece_file(std::span<const std::byte> bytes) {
  SentencePieceFile file;
  file.model.kind = SentencePieces::Kind::kUnigram;
  file.model.unk_id = 0;
  file.model.merges_spaces = true;
  file.begin_id = 1;
  file.end_id = 2;
  for_each_field({.bytes = bytes}, [&](const ProtoField& field) {
    if (field.number == 1) file.model.pieces.push_back(read_piece(field.message(), file.model.pieces.size()));
    if (field.number == 2) read_trainer(field.message(), file);
    if (field.number == 3) read_normalizer(field.message(), file.model);
  });
  if (file.model.pieces.empty()) fail("it has no pieces");
  return file;
}

}  // namespace genesis::text
