// The losses that tables of bytes would reach on a text, to compare a model's loss with.
#pragma once

#include <string_view>

namespace genesis::data {

// Nats per byte, with counts from the measured text itself: of single bytes, and of a byte after its predecessor.
struct ByteBaseline {
  double unigram = 0, bigram = 0;
};

// Throws Error for a text of less than two bytes.
ByteBaseline byte_baseline(std::string_view text);

}  // namespace genesis::data
