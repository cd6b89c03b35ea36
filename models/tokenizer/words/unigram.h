// The unigram language model of SentencePiece (Kudo 2018): of all ways to write a word with tokens, the one with the highest sum
// of scores, found by Viterbi's algorithm. XLM-RoBERTa, T5 and ALBERT have such tokenizers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/tokenizer/words/prefix_tree.h"
#include "models/tokenizer/words/work_budget.h"

namespace genesis::text {

struct UnigramModel {
  std::vector<std::pair<std::string, double>> pieces;  // tokens and their scores, by id; all are different
  std::optional<uint32_t> unk_id;                      // the token of text that no piece has
  bool byte_fallback =
      false;  // unknown text becomes "<0x41>" for each of its bytes, if all of these are tokens
};

class Unigram {
 public:
  explicit Unigram(const UnigramModel& model);

  // Appends the tokens of `word`, which must be UTF-8. Of several ways with an equal score, takes the one that `tokenizers`
  // takes. Throws Error if the word needs `unk_id` and there is none, and if long tokens that almost match exceed the budget.
  void encode(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const;

 private:
  struct Step {  // the best way to write the word up to some byte
    double score = 0;
    uint32_t begin = kNowhere;  // the byte at which its last token begins
    uint32_t token = 0;
  };
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  static constexpr uint32_t kUnknown = ~uint32_t{0};  // takes the place of unk_id where there is none

  // Returns the best step to each byte of the word.
  std::vector<Step> steps_through(std::string_view word, WorkBudget& budget) const;
  // Appends the ids of one part of the best way, which may be several unknown characters.
  void append(std::string_view part, std::vector<int64_t>& ids) const;
  bool append_bytes(std::string_view part, std::vector<int64_t>& ids) const;

  PrefixTree tokens_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  uint32_t unknown_ = kUnknown;
  std::array<int64_t, 256> fallback_;  // by byte: id of its token "<0x41>"; -1: none, or not used
};

}  // namespace genesis::text
