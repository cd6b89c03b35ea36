#include "models/data/byte_baseline.h"

#include <array>
#include <cmath>
#include <vector>

#include "schema/core/error.h"

namespace genesis::data {

ByteBaseline byte_baseline(std::string_view text) {
  if (text.size() < 2) fail("the text has {} bytes, two are needed", text.size());
  std::vector<std::array<double, 256>> pairs(256, std::array<double, 256>{});
  std::array<double, 256> first{}, second{};
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const auto a = static_cast<unsigned char>(text[i]), b = static_cast<unsigned char>(text[i + 1]);
    ++pairs[a][b];
    ++first[a];
    ++second[b];
  }
  const auto total = static_cast<double>(text.size() - 1);
  ByteBaseline result;
  for (size_t a = 0; a < 256; ++a) {
    if (second[a] > 0) result.unigram -= second[a] / total * std::log(second[a] / total);
    for (size_t b = 0; b < 256; ++b)
      if (pairs[a][b] > 0) result.bigram -= pairs[a][b] / total * std::log(pairs[a][b] / first[a]);
  }
  return result;
}

}  // namespace genesis::data
