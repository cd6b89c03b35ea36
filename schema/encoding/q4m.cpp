#include "schema/encoding/q4m.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/core/float16.h"

namespace genesis {
namespace {

constexpr int kBlock = kQuantBlock;
constexpr float kMaxQuant = 15;
constexpr int kZeroBits = 7;
constexpr int kLargestScale = 0x7bc0;  // bits of the largest finite f16 that a word holds

// Sums of every eighth value, which a compiler can compute in vector lanes.
constexpr size_t kLanes = 8;
using Lanes = std::array<float, kLanes>;

float total(const Lanes& sums) {
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Rounds to the nearest integer, ties to even, for magnitudes below 2^22; compilers vectorize this form on every processor.
float rounded(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

// Returns the word with the nearest scale that is not 0, and the nearest zero.
uint16_t word_of(float scale, float zero) {
  constexpr int kDropped = 64;  // six bits of an f16 are dropped
  const int nearest = (f16(scale / kQ4mScaleUnit).bits + kDropped / 2) & ~(kDropped - 1);
  const int bits = std::clamp(nearest, kDropped, kLargestScale);
  const float units = std::clamp(rounded(zero / kQ4mZeroUnit), 0.0f, static_cast<float>(kQ4mMostZero));
  return static_cast<uint16_t>(bits << 1 | static_cast<int>(units));
}

// Sums over a block of w, w x, w q, w q q and w q x, for the importances w and the quants q that a grid gives to the values x.
struct Sums {
  float w, wx, wq, wqq, wqx;
  float error;
};

Sums sums_of(const float* x, const float* importance, const Q4mGrid& grid) {
  Lanes w{}, wx{}, wq{}, wqq{}, wqx{}, error{};
  for (size_t i = 0; i < kBlock; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane], weight = importance[i + lane];
      const float q = grid.quant(value), left = value - grid.value(q), weighted = weight * q;
      w[lane] += weight;
      wx[lane] += weight * value;
      wq[lane] += weighted;
      wqq[lane] += weighted * q;
      wqx[lane] += weighted * value;
      error[lane] += weight * left * left;
    }
  return {total(w), total(wx), total(wq), total(wqq), total(wqx), total(error)};
}

float error_of(const float* x, const float* importance, const Q4mGrid& grid) {
  Lanes error{};
  for (size_t i = 0; i < kBlock; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane], left = value - grid.value(grid.quant(value));
      error[lane] += importance[i + lane] * left * left;
    }
  return total(error);
}

// Keeps the best word of those that were tried.
class Search {
 public:
  Search(const float* x, const float* importance) : x_(x), importance_(importance) {}

  // Tries a grid, then twice the least-squares solution of x = scale * (q - zero) for the quants q that the last grid gave.
  void try_from(float scale, float zero) {
    Sums sums = take(word_of(scale, zero));
    for (int i = 0; i < 2; ++i) {
      const float mean_q = sums.wq / sums.w, mean_x = sums.wx / sums.w, spread = sums.wqq - sums.wq * mean_q,
                  slope = (sums.wqx - sums.wq * mean_x) / spread;
      if (!(spread > 0) || !(slope > 0)) return;
      const float units = std::clamp(rounded((mean_q - mean_x / slope) / kQ4mZeroUnit), 0.0f,
                                     static_cast<float>(kQ4mMostZero));
      const float fitted_zero = units * kQ4mZeroUnit;  // with this zero, not every scale is as good any more
      const float square = sums.wqq - 2 * fitted_zero * sums.wq + fitted_zero * fitted_zero * sums.w;
      const float fitted = (sums.wqx - fitted_zero * sums.wx) / square;
      if (!(square > 0) || !(fitted > 0)) return;
      sums = take(word_of(fitted, fitted_zero));
    }
  }
  // Tries the words with nearly the scale and zero of the best one. Rounding both, after the least-squares solution, has moved
  // them away from the best pair: this lowers the error of weights by 3%.
  void try_neighbors() {
    struct Move {
      int scale, zero;
    };
    constexpr Move kMoves[] = {{1, 0}, {-1, 0},  {0, 1},  {0, -1}, {0, 2}, {0, -2},
                               {1, 2}, {-1, -2}, {1, -2}, {-1, 2}, {0, 4}, {0, -4}};
    const int scale = best_ >> kZeroBits, zero = q4m_zero_units(best_);
    for (const Move& move : kMoves) {
      const int moved_scale = std::clamp(scale + move.scale, 1, kLargestScale >> 6),
                moved_zero = std::clamp(zero + move.zero, 0, kQ4mMostZero);
      const auto word = static_cast<uint16_t>(moved_scale << kZeroBits | moved_zero);
      keep_better(word, error_of(x_, importance_, Q4mGrid(word)));
    }
  }
  uint16_t best() const { return best_; }

 private:
  Sums take(uint16_t word) {
    const Sums sums = sums_of(x_, importance_, Q4mGrid(word));
    keep_better(word, sums.error);
    return sums;
  }
  void keep_better(uint16_t word, float error) {
    if (has_best_ && !(error < least_)) return;
    has_best_ = true;
    least_ = error;
    best_ = word;
  }

  const float *x_, *importance_;
  bool has_best_ = false;
  float least_ = 0;
  uint16_t best_ = 0;
};

}  // namespace

Q4mGrid::Q4mGrid(uint16_t word) : zero(static_cast<float>(q4m_zero_units(word)) * kQ4mZeroUnit) {
  f16 half;
  half.bits = q4m_scale_bits(word);
  scale = static_cast<float>(half) * kQ4mScaleUnit;
  inverse = scale == 0 ? 0 : 1 / scale;
}

float Q4mGrid::quant(float x) const {
  return std::min(std::max(rounded(x * inverse + zero), 0.0f), kMaxQuant);
}

uint16_t fit_q4m(const float* x, const float* importance) {
  const float low = std::min(0.0f, *std::min_element(x, x + kBlock)),
              high = std::max(0.0f, *std::max_element(x, x + kBlock));
  if (low == high) return 0;
  Search search(x, importance);
  // With fewer steps than 15 over the range its ends are clipped, and the other values are nearer to a step. Whole numbers of
  // steps begin at a whole quant, so that values which were decoded from this format are found again.
  for (const float steps : {15.6f, 15.0f, 14.5f, 14.0f, 13.5f, 13.0f, 12.0f, 11.0f}) {
    const float scale = (high - low) / steps, unused = (kMaxQuant - steps) / 2;
    search.try_from(scale, -low / scale + (steps == std::floor(steps) ? std::floor(unused) : unused));
  }
  for (int i = 0; i < 2; ++i) search.try_neighbors();
  return search.best();
}

}  // namespace genesis
