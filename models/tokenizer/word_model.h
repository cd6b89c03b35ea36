// Encodes words with any of the models that a tokenizer.json may have: BPE, Unigram, WordPiece or WordLevel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer/words/bpe.h"
#include "models/tokenizer/words/unigram.h"
#include "models/tokenizer/words/vocabulary.h"
#include "models/tokenizer/words/word_cache.h"
#include "models/tokenizer/words/word_piece.h"
#include "models/tokenizer/words/work_budget.h"

namespace genesis::text {

// WordLevel: a word is a token, or becomes `unk_token`.
struct WordLevelModel {
  std::string unk_token = "<unk>";
};

using WordModelData = std::variant<BpeModel, UnigramModel, WordPieceModel, WordLevelModel>;

class WordModel {
 public:
  // With `is_byte_level`, words are bytes, which the vocabulary writes in the byte alphabet; else they are UTF-8.
  WordModel(const WordModelData& model, const Vocabulary& vocabulary, bool is_byte_level);

  // Appends the tokens of `word`. Throws Error if it has a character without a token and the model has no unknown token, and if
  // it exceeds the budget.
  void encode(std::string_view word, WordCache& cache, WorkBudget& budget, std::vector<int64_t>& ids) const;

 private:
  struct WordLevel {
    Vocabulary vocabulary;
    std::string unk_token;

    void encode(std::string_view word, std::vector<int64_t>& ids) const;
  };
  using Encoder = std::variant<Bpe, Unigram, WordPiece, WordLevel>;

  static Encoder encoder_of(const WordModelData& model, const Vocabulary& vocabulary, bool is_byte_level);
  void encode_new(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const;

  Encoder encoder_;
  bool writes_bytes_;  // words are bytes, and the encoder needs them in the byte alphabet
};

}  // namespace genesis::text
