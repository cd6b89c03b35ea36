#include "models/formats/gguf/piece_tokenizer.h"

#include <algorithm>
#include <cctype>

#include "models/tokenizer/sentence_pieces.h"
#include "schema/core/error.h"

namespace genesis::models::gguf {
namespace {

using text::PieceType;
using text::SentencePiece;
using text::SentencePieces;

// A row holds what llama.cpp assumes of a file that does not say otherwise. An id of -1 is none.
struct Defaults {
  const char* kind;
  SentencePieces::Kind model;
  int64_t begin, end, separator, unknown;
  bool adds_begin, adds_end, adds_separator, adds_space;
};
constexpr Defaults kDefaults[] = {
    {"llama", SentencePieces::Kind::kBpe, 1, 2, -1, 0, true, false, false, true},
    {"t5", SentencePieces::Kind::kUnigram, -1, 1, -1, 2, false, true, false, true},
    {"bert", SentencePieces::Kind::kWordPiece, 101, -1, 102, 100, true, false, true, false}};

const Defaults* defaults_of(const std::string& kind) {
  const auto* found = std::ranges::find_if(kDefaults, [&](const Defaults& row) { return kind == row.kind; });
  return found == std::end(kDefaults) ? nullptr : found;
}

class Metadata {
 public:
  explicit Metadata(const Gguf& gguf) : gguf_(gguf) {}

  // Returns null if the file does not have "tokenizer.ggml." + `name`.
  template <class T>
  const T* find(const std::string& name) const {
    const auto at = gguf_.metadata.find("tokenizer.ggml." + name);
    if (at == gguf_.metadata.end()) return nullptr;
    const T* value = std::get_if<T>(&at->second);
    if (!value) fail("its metadata 'tokenizer.ggml.{}' are of another kind than expected", name);
    return value;
  }
  template <class T>
  T get(const std::string& name, T otherwise) const {
    const T* value = find<T>(name);
    return value ? *value : otherwise;
  }
  // Returns the values by token, or null if the file has none. Throws Error if their number is not that of the tokens.
  template <class T>
  const std::vector<T>* list(const std::string& name, size_t tokens) const {
    const auto* values = find<std::vector<T>>(name);
    if (values && values->size() != tokens)
      fail("its tokenizer has {} tokens, and 'tokenizer.ggml.{}' has {} values", tokens, name,
           values->size());
    return values;
  }
  // Returns true for Phi-3, whose special tokens include the white space behind them: llama.cpp knows this by the name.
  bool is_phi3() const {
    const auto at = gguf_.metadata.find("general.name");
    const auto* name = at == gguf_.metadata.end() ? nullptr : std::get_if<std::string>(&at->second);
    std::string lower = name ? *name : "";
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
  }

 private:
  const Gguf& gguf_;
};

std::vector<SentencePiece> pieces_of(const Metadata& metadata, bool needs_scores) {
  const auto* texts = metadata.find<std::vector<std::string>>("tokens");
  if (!texts) fail("its tokenizer has no 'tokenizer.ggml.tokens'");
  const auto* scores = metadata.list<double>("scores", texts->size());
  const auto* types = metadata.list<int64_t>("token_type", texts->size());
  if (!scores && needs_scores) fail("its tokenizer has no 'tokenizer.ggml.scores'");
  const bool is_phi3 = metadata.is_phi3();
  std::vector<SentencePiece> pieces;
  for (size_t id = 0; id < texts->size(); ++id) {
    const std::string& text = (*texts)[id];
    const int64_t type = types ? (*types)[id] : 1;
    if (type < 0 || type > 6)
      fail("'tokenizer.ggml.token_type' of token {} is {}, expected 1 to 6", id, type);
    pieces.push_back(
        {.text = text,
         .score = scores ? (*scores)[id] : 0,
         .type = type == 0 ? PieceType::kNormal : static_cast<PieceType>(type),
         .strips_right = is_phi3 && text != "<unk>" && text != "<s>" && text != "<|endoftext|>"});
  }
  return pieces;
}

// Appends the id of a token that is put around every text.
void put(std::vector<int64_t>& ids, bool adds, int64_t id, const char* name, size_t tokens) {
  if (!adds || id < 0) return;
  if (static_cast<uint64_t>(id) >= tokens)
    fail("'tokenizer.ggml.{}' is {}, and its tokenizer has {} tokens", name, id, tokens);
  ids.push_back(id);
}

}  // namespace

bool is_piece_tokenizer(const std::string& kind) { return defaults_of(kind) != nullptr; }

std::string piece_tokenizer_json(const Gguf& gguf, const std::string& kind) {
  const Defaults* otherwise = defaults_of(kind);
  if (!otherwise) fail("its tokenizer is a '{}' (tokenizer.ggml.model), expected llama, t5 or bert", kind);
  const Metadata metadata(gguf);
  const bool is_bert = otherwise->model == SentencePieces::Kind::kWordPiece;
  SentencePieces model = {.kind = otherwise->model, .pieces = pieces_of(metadata, !is_bert)};
  const size_t tokens = model.pieces.size();
  const auto id = [&](const char* name, int64_t value) { return metadata.get<int64_t>(name, value); };
  const int64_t begin = id("bos_token_id", id("cls_token_id", otherwise->begin)),
                separator = id("seperator_token_id", otherwise->separator),  // llama.cpp spells it like this
      unknown = id("unknown_token_id", otherwise->unknown);
  if (unknown >= 0 && static_cast<uint64_t>(unknown) < tokens) model.unk_id = unknown;
  put(model.prefix, metadata.get<bool>("add_bos_token", otherwise->adds_begin), begin, "bos_token_id",
      tokens);
  put(model.suffix, !is_bert && metadata.get<bool>("add_eos_token", otherwise->adds_end),
      id("eos_token_id", otherwise->end), "eos_token_id", tokens);
  put(model.suffix, metadata.get<bool>("add_sep_token", otherwise->adds_separator), separator,
      "seperator_token_id", tokens);
  model.adds_space = metadata.get<bool>("add_space_prefix", otherwise->adds_space);
  if (otherwise->model == SentencePieces::Kind::kUnigram) {
    model.merges_spaces = metadata.get<bool>("remove_extra_whitespaces", false);
    model.adds_space |= model.merges_spaces;  // llama.cpp does the same
    model.characters_map = metadata.get<std::string>("precompiled_charsmap", "");
  }
  return text::tokenizer_json_of(model);
}

}  // namespace genesis::models::gguf
