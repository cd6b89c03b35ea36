// Counts adjacent pairs of tokens during training, in a hash map that only grows.
#pragma once

#include <cstdint>
#include <vector>

#include "models/tokenizer/words/bpe.h"
#include "models/tokenizer/words/word_hash.h"

namespace genesis::text {

class PairTable {
 public:
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  struct Row {
    uint64_t pair = kNoPair;
    int64_t count = 0;
    uint32_t found_in = kNowhere;  // list of words that is being filled
  };

  // Returns the row of the pair; a new one has a count of 0. The reference is valid until the next new pair.
  Row& row(uint64_t pair) {
    Row* found = &place_of(pair);
    if (found->pair == pair) return *found;
    if (2 * ++filled_ > rows_.size()) {
      grow();
      found = &place_of(pair);
    }
    found->pair = pair;
    return *found;
  }

 private:
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  Row& place_of(uint64_t pair) {
    size_t at = mixed(pair) & (rows_.size() - 1);
    while (rows_[at].pair != pair && rows_[at].pair != kNoPair) at = (at + 1) & (rows_.size() - 1);
    return rows_[at];
  }

  void grow() {
    std::vector<Row> old(2 * rows_.size());
    old.swap(rows_);
    for (const Row& row : old)
      if (row.pair != kNoPair) place_of(row.pair) = row;
  }

  std::vector<Row> rows_ = std::vector<Row>(1 << 12);
  size_t filled_ = 0;
};

}  // namespace genesis::text
