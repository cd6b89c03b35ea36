// Limits the work of encoding or decoding one text. Tokenizer files and texts are not trusted, and a small file can demand any
// amount of matching or output. Ordinary files stay far below these limits. The limits count work instead of seconds, so that
// every machine refuses the same texts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "schema/core/error.h"

namespace genesis::text {

class WorkBudget {
 public:
  // Sets the budget for a text of this size.
  void begin(size_t text_bytes) {
    steps_ = kSteps + kStepsPerByte * uint64_t{text_bytes};
    bytes_ = kBytes + kBytesPerByte * uint64_t{text_bytes};
  }
  // Lets a text that arrives in chunks grow by the allowance of this chunk.
  void add(size_t text_bytes) { bytes_ += kBytesPerByte * uint64_t{text_bytes}; }
  // Returns false if the budget does not cover it.
  bool spend_steps(uint64_t steps) { return spend(steps_, steps); }
  // Throws Error if the budget does not cover it, because the file expands the text too much.
  void spend_bytes(uint64_t bytes) {
    if (!spend(bytes_, bytes))
      fail(
          "the tokenizer makes more than {} bytes of each byte of a text: what its 'normalizer', "
          "'pre_tokenizer' or "
          "'decoder' adds has to be shorter",
          kBytesPerByte);
  }

 private:
  static constexpr uint64_t kSteps = uint64_t{1} << 28, kStepsPerByte = 1024;
  static constexpr uint64_t kBytes = uint64_t{1} << 16, kBytesPerByte = 64;

  static bool spend(uint64_t& left, uint64_t amount) {
    const bool enough = amount <= left;
    left -= std::min(left, amount);
    return enough;
  }

  uint64_t steps_ = kSteps, bytes_ = kBytes;
};

}  // namespace genesis::text
