#include "schema/philox.h"

#include <algorithm>

namespace genesis {
namespace {

// Calls fill(block, at) for each group of up to four elements.
template <class Fill>
void for_blocks(std::span<float> values, uint64_t seed, uint64_t stream, Fill&& fill) {
  const auto low = static_cast<uint32_t>(stream), high = static_cast<uint32_t>(stream >> 32);
  for (size_t i = 0; i < values.size(); i += 4)
    fill(philox(seed, low, high, i / 4), values.subspan(i, std::min<size_t>(4, values.size() - i)));
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The inverse of normal_cdf by bisection: the distribution function is monotone, and initialisers have time.
double normal_quantile(double p, double low, double high) {
  for (int i = 0; i < 60 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_cdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

void fill_uniform(std::span<float> values, uint64_t seed, uint64_t stream, double low, double high) {
  for_blocks(values, seed, stream, [&](const PhiloxBlock& block, std::span<float> out) {
    for (size_t k = 0; k < out.size(); ++k)
      out[k] = static_cast<float>(low + (high - low) * static_cast<double>(uniform_from(block.word[k])));
  });
}

void fill_normal(std::span<float> values, uint64_t seed, uint64_t stream, double mean, double std) {
  for_blocks(values, seed, stream, [&](const PhiloxBlock& block, std::span<float> out) {
    const SinCos a = normals_from(block.word[0], block.word[1]),
                 b = normals_from(block.word[2], block.word[3]);
    const float normals[4] = {a.sin, a.cos, b.sin, b.cos};
    for (size_t k = 0; k < out.size(); ++k)
      out[k] = static_cast<float>(mean + std * static_cast<double>(normals[k]));
  });
}

void fill_trunc_normal(std::span<float> values, uint64_t seed, uint64_t stream, double mean, double std,
                       double low, double high) {
  const double a = std::clamp((low - mean) / std, -9.0, 9.0), b = std::clamp((high - mean) / std, -9.0, 9.0);
  const double pa = normal_cdf(a), pb = normal_cdf(b);
  for_blocks(values, seed, stream, [&](const PhiloxBlock& block, std::span<float> out) {
    for (size_t k = 0; k < out.size(); ++k) {
      const double p = pa + (pb - pa) * static_cast<double>(uniform_from(block.word[k]));
      out[k] = static_cast<float>(mean + std * normal_quantile(p, a, b));
    }
  });
}

}  // namespace genesis
