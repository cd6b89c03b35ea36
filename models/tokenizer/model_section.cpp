#include "models/tokenizer/model_section.h"

#include <cmath>

#include "models/tokenizer/json_members.h"

namespace genesis::text {
namespace {

using nlohmann::json;

std::string kind_of(const json& model) {
  if (!member(model, "type").is_null()) return type_of(model, "model");
  if (!member(model, "merges").is_null()) return "BPE";
  if (member(model, "vocab").is_array()) return "Unigram";
  return member(model, "continuing_subword_prefix").is_null() ? "WordLevel" : "WordPiece";
}

bool flag_in(const json& model, const char* name) {
  return bool_of(member(model, name), false, std::string("model.") + name);
}

std::string text_in(const json& model, const char* name) {
  return text_of(member(model, name), std::string("model.") + name);
}

BpeModel bpe_options(const json& model, Refusals& refusals) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const json& value = member(model, name); !value.is_null() && !text_of(value, name).empty())
      refusals.add(fmt::format("model.{}", name));
  if (const json& dropout = member(model, "dropout"); !dropout.is_null() && dropout != 0)
    refusals.add("model.dropout");
  BpeModel bpe;
  bpe.whole_words_first = flag_in(model, "ignore_merges");
  bpe.byte_fallback = flag_in(model, "byte_fallback");
  bpe.fuse_unk = flag_in(model, "fuse_unk");
  if (!member(model, "unk_token").is_null()) bpe.unk_token = text_in(model, "unk_token");
  return bpe;
}

UnigramModel unigram_options(const json& model) {
  UnigramModel unigram;
  unigram.byte_fallback = flag_in(model, "byte_fallback");
  if (const json& id = member(model, "unk_id"); !id.is_null()) unigram.unk_id = id_of(id, "model.unk_id");
  return unigram;
}

WordPieceModel word_piece_options(const json& model) {
  WordPieceModel pieces = {.unk_token = text_in(model, "unk_token"),
                           .continuing_prefix = text_in(model, "continuing_subword_prefix")};
  const json& limit = member(model, "max_input_chars_per_word");
  if (!limit.is_number_unsigned()) fail("'model.max_input_chars_per_word' is not a number from 0 up");
  pieces.max_characters = limit.get<uint64_t>();
  return pieces;
}

void check_size(const std::string& token) {
  if (token.empty() || token.size() > kMaxToken)
    fail("a token of {} bytes, the limits are 1 and {}", token.size(), kMaxToken);
}

// Reads "vocab" as an object of ids.
void read_vocabulary(const json& tokens, Vocabulary& vocabulary) {
  if (!tokens.is_object()) fail("'vocab' is not an object of ids");
  std::vector<bool> taken(kMaxId + 1);
  for (const auto& [token, value] : tokens.items()) {
    const uint32_t id = id_of(value, token);
    check_size(token);
    if (taken[id]) fail("two tokens of 'vocab' have the id {}", id);
    taken[id] = true;
    vocabulary.emplace(token, id);
  }
}

// Reads "vocab" as a list of tokens and scores, by id.
void read_pieces(const json& list, UnigramModel& unigram, Vocabulary& vocabulary) {
  for (const json& row : list_of(list, "model.vocab")) {
    const size_t id = unigram.pieces.size();
    if (id > kMaxId) fail("'model.vocab' has more than {} tokens", kMaxId + 1);
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      fail("row {} of 'model.vocab' is not a token and its score", id);
    const double score = row[1].get<double>();
    if (!std::isfinite(score)) fail("row {} of 'model.vocab' has a score that is not finite", id);
    unigram.pieces.emplace_back(row[0].get<std::string>(), score);
    check_size(unigram.pieces.back().first);
    if (!vocabulary.emplace(unigram.pieces.back().first, static_cast<uint32_t>(id)).second)
      fail("row {} of 'model.vocab' has the token '{}' again", id, unigram.pieces.back().first.substr(0, 60));
  }
  if (unigram.unk_id && *unigram.unk_id >= unigram.pieces.size())
    fail("'model.unk_id' is {}, and 'model.vocab' has {} tokens", *unigram.unk_id, unigram.pieces.size());
}

uint32_t known(const Vocabulary& vocabulary, const std::string& token) {
  const int64_t id = id_in(vocabulary, token);
  if (id < 0) fail("'{}' in 'merges' is not in 'vocab'", token);
  return static_cast<uint32_t>(id);
}

void read_merges(const json& list, const Vocabulary& vocabulary, std::vector<Merge>& merges) {
  for (const json& row : list_of(list, "merges")) {
    const bool is_pair = row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string();
    if (row.is_string() && row.get_ref<const std::string&>().starts_with("#version")) continue;
    const std::string text = row.is_string() ? row.get<std::string>() : "";
    const size_t space = text.find(' ');
    if (!is_pair && (space == std::string::npos || text.find(' ', space + 1) != std::string::npos))
      fail("row {} of 'merges' is neither \"a b\" nor [\"a\", \"b\"]", &row - &list[0]);
    const std::string left = is_pair ? row[0].get<std::string>() : text.substr(0, space),
                      right = is_pair ? row[1].get<std::string>() : text.substr(space + 1);
    merges.push_back({known(vocabulary, left), known(vocabulary, right), known(vocabulary, left + right)});
  }
}

}  // namespace

WordModelData model_options(const json& model, Refusals& refusals) {
  const std::string kind = kind_of(model);
  if (kind == "BPE") return bpe_options(model, refusals);
  if (kind == "Unigram") return unigram_options(model);
  if (kind == "WordPiece") return word_piece_options(model);
  if (kind == "WordLevel") return WordLevelModel{.unk_token = text_in(model, "unk_token")};
  refusals.add("model " + kind);
  return {};
}

void read_tokens(const json& model, ModelSection& section) {
  if (auto* unigram = std::get_if<UnigramModel>(&section.data)) {
    read_pieces(member(model, "vocab"), *unigram, section.vocabulary);
    return;
  }
  read_vocabulary(member(model, "vocab"), section.vocabulary);
  if (auto* bpe = std::get_if<BpeModel>(&section.data))
    read_merges(member(model, "merges"), section.vocabulary, bpe->merges);
}

}  // namespace genesis::text
