#include "schema/core/philox.h"

#include <algorithm>

#include "schema/core/parallel.h"

namespace genesis {
namespace {

constexpr int64_t kGrain = 1 << 18;  // elements that one thread draws at a time; a multiple of four

// Calls fill(block, values) for each group of up to four elements, on all cores. An element depends only on its index.
template <class Fill>
void for_blocks(std::span<float> values, uint64_t seed, uint64_t stream, Fill&& fill) {
  const auto low = static_cast<uint32_t>(stream), high = static_cast<uint32_t>(stream >> 32);
  in_parallel(static_cast<int64_t>(values.size()), kGrain, [&](int64_t first, int64_t last) {
    const std::span<float> part = values.first(static_cast<size_t>(last));
    for (size_t i = static_cast<size_t>(first); i < part.size(); i += 4)
      fill(philox(seed, low, high, i / 4), part.subspan(i, std::min<size_t>(4, part.size() - i)));
  });
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double polynomial(const double (&c)[8], double x) {
  double sum = c[7];
  for (int i = 6; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// Computes the inverse of normal_cdf with a relative error of 1e-16: Wichura, "Algorithm AS 241: the percentage points of the
// normal distribution", Applied Statistics 37, 1988.
double normal_quantile(double p) {
  constexpr double kA[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                           1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                           3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr double kB[] = {1.0,
                           4.2313330701600911252e+1,
                           6.8718700749205790830e+2,
                           5.3941960214247511077e+3,
                           2.1213794301586595867e+4,
                           3.9307895800092710610e+4,
                           2.8729085735721942674e+4,
                           5.2264952788528545610e+3};
  constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                           3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                           2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kD[] = {1.0,
                           2.05319162663775882187e0,
                           1.67638483018380384940e0,
                           6.89767334985100004550e-1,
                           1.48103976427480074590e-1,
                           1.51986665636164571966e-2,
                           5.47593808499534494600e-4,
                           1.05075007164441684324e-9};
  constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                           2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                           2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double kF[] = {1.0,
                           5.99832206555887937690e-1,
                           1.36929880922735805310e-1,
                           1.48753612908506148525e-2,
                           7.86869131145613259100e-4,
                           1.84631831751005468180e-5,
                           1.42151175831644588870e-7,
                           2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? polynomial(kC, r - 1.6) / polynomial(kD, r - 1.6)
                          : polynomial(kE, r - 5) / polynomial(kF, r - 5);
  return q < 0 ? -x : x;
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
    const NormalPair a = normals_from(block.word[0], block.word[1]);
    const NormalPair b = normals_from(block.word[2], block.word[3]);
    const float normals[4] = {a.first, a.second, b.first, b.second};
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
      out[k] = static_cast<float>(mean + std * std::clamp(normal_quantile(p), a, b));
    }
  });
}

}  // namespace genesis
