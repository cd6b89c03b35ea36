#include "schema/encoding/quantized_formats.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/core/float16.h"
#include "schema/encoding/q4m.h"

namespace genesis {
namespace {

constexpr int kBlock = kQuantBlock;

float greatest_magnitude(const float* x) {
  float greatest = 0;
  for (int i = 0; i < kBlock; ++i) greatest = std::max(greatest, std::abs(x[i]));
  return greatest;
}

f16 next_up(f16 x) {
  ++x.bits;
  return x;
}

// Returns the f16 nearest to magnitude / quants. Below f16's normal numbers it may be so much smaller that the greatest value
// would not fit; then returns the next larger f16.
f16 scale_for(float magnitude, float quants) {
  const f16 scale(magnitude / quants);
  return static_cast<float>(scale) * (quants + 0.5f) < magnitude ? next_up(scale) : scale;
}

float inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }

// Rounds to the nearest integer, ties to even, for magnitudes below 2^22: the sum has no bits left for the fraction. Compilers
// vectorize this form on every processor.
float rounded(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

struct Q8 {
  using Scale = f16;
  static constexpr WeightFormat kFormat = WeightFormat::kQ8;
  static constexpr float kLargest = 127, kGreatest = kLargest * 65504;
  static f16 encode(const float* x, std::byte* quants) {
    const f16 scale = scale_for(greatest_magnitude(x), kLargest);
    const float by = inverse(scale);
    auto* to = reinterpret_cast<int8_t*>(quants);
    for (int i = 0; i < kBlock; ++i)
      to[i] = static_cast<int8_t>(std::clamp(rounded(x[i] * by), -127.0f, 127.0f));
    return scale;
  }
  static void decode(const std::byte* quants, float scale, float* x) {
    const auto* from = reinterpret_cast<const int8_t*>(quants);
    for (int i = 0; i < kBlock; ++i) x[i] = static_cast<float>(from[i]) * scale;
  }
};

// Partial sums, each of every eighth value, which a compiler can compute in vector lanes.
constexpr size_t kLanes = 8;
using Lanes = std::array<float, kLanes>;

float total(const Lanes& sums) {
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

struct Q4 {
  using Scale = f16;
  static constexpr WeightFormat kFormat = WeightFormat::kQ4;
  static constexpr float kLargest = 8, kGreatest = kLargest * 65504;

  static float quant(float x, float by) { return std::min(std::max(rounded(x * by), -8.0f), 7.0f); }

  static int bits(float x, float by) { return static_cast<int>(quant(x, by)) + kQ4Zero; }

  // Returns the squared error of rounding to multiples of `scale`.
  static float squared_error(const float* x, float scale) {
    const float by = inverse(scale);
    Lanes sum{};
    for (size_t i = 0; i < kBlock; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float value = x[i + lane], left = value - quant(value, by) * scale;
        sum[lane] += left * left;
      }
    return total(sum);
  }

  // Returns the scale that fits x best with the quants that `scale` gives: the least-squares solution of x - new_scale * quant.
  static float fitted(const float* x, float scale) {
    const float by = inverse(scale);
    Lanes xq{}, qq{};
    for (size_t i = 0; i < kBlock; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float value = x[i + lane], q = quant(value, by);
        xq[lane] += value * q;
        qq[lane] += q * q;
      }
    return total(qq) == 0 ? scale : total(xq) / total(qq);
  }

  // Returns the best of ten candidate scales. Most of them map the value of greatest magnitude to a quant near -8, because there
  // are eight steps on that side of zero and seven on the other.
  static f16 best_scale(const float* x) {
    const float* extreme =
        std::max_element(x, x + kBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
    if (*extreme == 0) return f16(0.0f);
    f16 best(*extreme / -kLargest);
    float least = squared_error(x, best);
    const auto try_scale = [&](float scale) {
      const f16 candidate(scale);
      const float error = squared_error(x, candidate);
      if (error < least) {
        least = error;
        best = candidate;
      }
    };
    for (const float quants : {-8.6f, -8.0f, -7.4f, -6.8f, 7.0f}) {
      const float scale = *extreme / quants;
      try_scale(scale);
      try_scale(fitted(x, scale));
    }
    return best;
  }

  static f16 encode(const float* x, std::byte* quants) {
    const f16 scale = best_scale(x);
    const float by = inverse(scale);
    for (int i = 0; i < 16; ++i)
      quants[i] = static_cast<std::byte>(bits(x[i], by) | bits(x[i + 16], by) << 4);
    return scale;
  }
  static void decode(const std::byte* quants, float scale, float* x) {
    const auto* from = reinterpret_cast<const uint8_t*>(quants);
    for (int i = 0; i < kBlock; ++i) x[i] = static_cast<float>(q4_quant(from, i)) * scale;
  }
};

struct Q4m {
  using Scale = uint16_t;
  static constexpr WeightFormat kFormat = WeightFormat::kQ4m;
  static constexpr float kGreatest = kGreatestQ4m;

  static uint16_t encode(const float* x, std::byte* quants) {
    std::array<float, kBlock> importance;
    float squares = 0;
    for (int i = 0; i < kBlock; ++i) squares += x[i] * x[i];
    const float size = std::sqrt(squares / kBlock);
    for (size_t i = 0; i < kBlock; ++i) importance[i] = size + std::abs(x[i]);
    const uint16_t word = fit_q4m(x, importance.data());
    const Q4mGrid grid(word);
    for (int i = 0; i < 16; ++i)
      quants[i] = static_cast<std::byte>(static_cast<int>(grid.quant(x[i])) |
                                         static_cast<int>(grid.quant(x[i + 16])) << 4);
    return word;
  }
  static void decode(const std::byte* quants, uint16_t word, float* x) {
    const auto* from = reinterpret_cast<const uint8_t*>(quants);
    const Q4mGrid grid(word);
    for (int i = 0; i < kBlock; ++i) x[i] = grid.value(static_cast<float>(four_bits(from, i)));
  }
};

template <class Quants, class T>
void encode(const std::byte* values, int64_t count, const StateFormat::Parts& parts) {
  const T* from = reinterpret_cast<const T*>(values);
  typename Quants::Scale unused;
  std::byte spare[kBlock];
  for (int64_t block = 0; block < count / kBlock; ++block) {
    float x[kBlock];
    for (int i = 0; i < kBlock; ++i) x[i] = static_cast<float>(from[block * kBlock + i]);
    std::byte* quants = parts[0] ? parts[0] + block * quant_block_bytes(Quants::kFormat) : spare;
    (parts[1] ? reinterpret_cast<typename Quants::Scale*>(parts[1])[block] : unused) =
        Quants::encode(x, quants);
  }
}

template <class Quants, class T>
void decode(const StateFormat::ConstParts& parts, int64_t count, std::byte* values) {
  T* to = reinterpret_cast<T*>(values);
  const auto* scales = reinterpret_cast<const typename Quants::Scale*>(parts[1]);
  for (int64_t block = 0; block < count / kBlock; ++block) {
    float x[kBlock];
    Quants::decode(parts[0] + block * quant_block_bytes(Quants::kFormat), scales[block], x);
    for (int i = 0; i < kBlock; ++i) to[block * kBlock + i] = T(x[i]);
  }
}

// Returns the index of the first value that cannot be encoded: a NaN, an infinity, or a value that needs a scale beyond the
// largest; -1 if there is none.
template <class Quants, class T>
int64_t first_refused(const std::byte* values, int64_t count) {
  const T* x = reinterpret_cast<const T*>(values);
  for (int64_t i = 0; i < count; ++i)
    if (!(std::abs(static_cast<float>(x[i])) <= Quants::kGreatest)) return i;
  return -1;
}

template <class Quants, class T>
const StateFormat& row() {
  constexpr WeightFormat kFormat = Quants::kFormat;
  static const StateFormat format{.name = EnumNames<WeightFormat>::names[static_cast<size_t>(kFormat)],
                                  .meant = dtype_of<T>(),
                                  .parts = {{".quants", quants_dtype(kFormat), values_each_quant(kFormat)},
                                            {".scales", scales_dtype(kFormat), kQuantBlock}},
                                  .block = kQuantBlock,
                                  .encode = encode<Quants, T>,
                                  .decode = decode<Quants, T>,
                                  .first_refused = first_refused<Quants, T>};
  return format;
}

}  // namespace

std::span<const StateFormat* const> quantized_formats() {
  static const StateFormat* const rows[] = {&row<Q8, float>(),  &row<Q8, bf16>(),  &row<Q8, f16>(),
                                            &row<Q4, float>(),  &row<Q4, bf16>(),  &row<Q4, f16>(),
                                            &row<Q4m, float>(), &row<Q4m, bf16>(), &row<Q4m, f16>()};
  return rows;
}

WeightFormat weight_format_of(const StateFormat& format) {
  for (const WeightFormat kind : {WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m})
    if (format.name == EnumNames<WeightFormat>::names[static_cast<size_t>(kind)]) return kind;
  return WeightFormat::kPlain;
}

const StateFormat* find_file_format(std::string_view name, DType meant) {
  for (const StateFormat* format : quantized_formats())
    if (format->name == name && format->meant == meant) return format;
  return nullptr;
}

const StateFormat& quantized_format(WeightFormat format, DType meant) {
  for (const StateFormat* row : quantized_formats())
    if (weight_format_of(*row) == format && row->meant == meant) return *row;
  fail("there is no format {} of {}: weights of f32, bf16 and f16 can be kept as q8, q4 and q4m",
       EnumNames<WeightFormat>::names[static_cast<size_t>(format)], name_of(meant));
}

}  // namespace genesis
