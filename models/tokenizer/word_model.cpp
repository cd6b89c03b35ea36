#include "models/tokenizer/word_model.h"

#include "models/tokenizer/unicode/byte_alphabet.h"
#include "schema/core/error.h"

namespace genesis::text {

WordModel::Encoder WordModel::encoder_of(const WordModelData& model, const Vocabulary& vocabulary,
                                         bool is_byte_level) {
  if (const auto* bpe = std::get_if<BpeModel>(&model)) return Bpe(*bpe, vocabulary, is_byte_level);
  if (const auto* unigram = std::get_if<UnigramModel>(&model)) return Unigram(*unigram);
  if (const auto* pieces = std::get_if<WordPieceModel>(&model)) return WordPiece(*pieces, vocabulary);
  return WordLevel{vocabulary, std::get<WordLevelModel>(model).unk_token};
}

WordModel::WordModel(const WordModelData& model, const Vocabulary& vocabulary, bool is_byte_level)
    : encoder_(encoder_of(model, vocabulary, is_byte_level)),
      writes_bytes_(is_byte_level && !std::holds_alternative<Bpe>(encoder_)) {}

void WordModel::WordLevel::encode(std::string_view word, std::vector<int64_t>& ids) const {
  const int64_t id = id_in(vocabulary, word), known = id < 0 ? id_in(vocabulary, unk_token) : id;
  if (known < 0)
    fail("the text has '{}', which is no token, and neither is model.unk_token '{}'", word.substr(0, 60),
         unk_token);
  ids.push_back(known);
}

void WordModel::encode(std::string_view word, WordCache& cache, WorkBudget& budget,
                       std::vector<int64_t>& ids) const {
  WordCache::Entry* entry = cache.entry(word);
  if (entry && WordCache::holds(*entry, word)) {
    ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
    return;
  }
  const size_t before = ids.size();
  encode_new(word, budget, ids);
  if (entry) WordCache::keep(*entry, word, ids.data() + before, ids.size() - before);
}

void WordModel::encode_new(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const {
  const std::string alphabet = writes_bytes_ ? alphabet_text(word) : "";
  const std::string_view text = writes_bytes_ ? std::string_view(alphabet) : word;
  if (const auto* bpe = std::get_if<Bpe>(&encoder_)) return bpe->encode(text, ids);
  if (const auto* unigram = std::get_if<Unigram>(&encoder_)) return unigram->encode(text, budget, ids);
  if (const auto* pieces = std::get_if<WordPiece>(&encoder_)) return pieces->encode(text, budget, ids);
  std::get<WordLevel>(encoder_).encode(text, ids);
}

}  // namespace genesis::text
