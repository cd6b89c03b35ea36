// Chooses how many tokens to draft for a text, by how many of the last drafts were accepted: a draft that was accepted as a whole
// doubles the length, one that was mostly refused halves it. A text whose drafts of one token are refused gets none for some steps,
// twice as many each time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace genesis::generation {

class DraftLength {
 public:
  explicit DraftLength(int64_t most) : most_(most), length_(std::min<int64_t>(most, 3)) {}

  // Returns the number of tokens to draft for the next step; 0: none.
  int64_t next() {
    if (waits_ == 0) return length_;
    --waits_;
    return 0;
  }

  // Takes the outcome of a step; without a draft it says nothing.
  void take(int64_t drafted, int64_t accepted) {
    if (drafted == 0) return;
    if (accepted > 0) pause_ = 1;
    if (accepted == drafted) {
      length_ = std::min(2 * length_ + 1, most_);
    } else if (2 * accepted < drafted) {
      if (length_ == 1) waits_ = pause_ = std::min<int64_t>(2 * pause_, 32);
      length_ = std::max<int64_t>(length_ / 2, 1);
    }
  }

 private:
  const int64_t most_;
  int64_t length_;
  int64_t waits_ = 0, pause_ = 1;
};

}  // namespace genesis::generation
