#include "schema/encoding/calibrated_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "schema/core/error.h"
#include "schema/core/parallel.h"
#include "schema/encoding/q4m.h"

namespace genesis {
namespace {

constexpr int64_t kBlock = kQuantBlock;
constexpr double kDamping =
    0.01;  // share of the mean power that is added to the power of each input, as in the paper
constexpr int64_t kGrain = 16;  // rows that a thread takes at a time

// A square matrix in double precision, row by row.
class Square {
 public:
  explicit Square(int64_t width) : width_(width), elements_(static_cast<size_t>(width * width)) {}
  int64_t width() const { return width_; }
  double* row(int64_t i) { return elements_.data() + i * width_; }
  const double* row(int64_t i) const { return elements_.data() + i * width_; }

 private:
  int64_t width_;
  std::vector<double> elements_;
};

// Returns a dot product, as sums of every eighth term, which a compiler can compute in vector lanes.
double dot(const double* a, const double* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
  double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Factors a positive definite matrix in place, a = R R^T with R upper triangular: the Cholesky factor from the last column to the
// first. Only the upper triangle is read and written.
void factor_from_the_end(Square& a) {
  for (int64_t end = a.width(); end > 0; end -= kBlock) {
    const int64_t begin = end - kBlock;
    const auto finish_row = [&](int64_t i) {  // the elements of row i in these columns, given the rows below
      for (int64_t j = end - 1; j >= std::max(begin, i); --j) {
        const double left = a.row(i)[j] - dot(a.row(i) + j + 1, a.row(j) + j + 1, end - j - 1);
        a.row(i)[j] = i == j ? std::sqrt(left) : left / a.row(j)[j];
      }
    };
    for (int64_t i = end - 1; i >= begin; --i) finish_row(i);
    in_parallel(begin, kGrain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) finish_row(i);
    });
    in_parallel(begin, kGrain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t j = i; j < begin; ++j) a.row(i)[j] -= dot(a.row(i) + begin, a.row(j) + begin, kBlock);
    });
  }
}

// Writes the inverse of the upper triangular matrix R, 32 columns at a time.
void invert_upper(const Square& r, std::vector<float>& inverse) {
  const int64_t width = r.width();
  in_parallel(width / kBlock, 1, [&](int64_t first, int64_t last) {
    std::vector<double> columns(static_cast<size_t>(width * kBlock));
    for (int64_t begin = first * kBlock; begin < last * kBlock; begin += kBlock)
      for (int64_t i = begin + kBlock - 1; i >= 0; --i) {
        std::array<double, kBlock> sums{};
        if (i >= begin) sums[static_cast<size_t>(i - begin)] = 1;
        for (int64_t k = i + 1; k < begin + kBlock; ++k)
          for (int64_t j = 0; j < kBlock; ++j)
            sums[static_cast<size_t>(j)] -= r.row(i)[k] * columns[static_cast<size_t>(k * kBlock + j)];
        for (int64_t j = 0; j < kBlock; ++j) {
          const double element = sums[static_cast<size_t>(j)] / r.row(i)[i];
          columns[static_cast<size_t>(i * kBlock + j)] = element;
          inverse[static_cast<size_t>(i * width + begin + j)] = static_cast<float>(element);
        }
      }
  });
}

// Returns the blocks of inputs, those of the greatest power first.
std::vector<int64_t> by_power(std::span<const float> gram, int64_t width) {
  std::vector<double> power(static_cast<size_t>(width / kBlock));
  for (int64_t i = 0; i < width; ++i)
    power[static_cast<size_t>(i / kBlock)] += gram[static_cast<size_t>(i * width + i)];
  std::vector<int64_t> blocks(power.size());
  std::iota(blocks.begin(), blocks.end(), 0);
  std::ranges::stable_sort(blocks, std::ranges::greater(),
                           [&](int64_t block) { return power[static_cast<size_t>(block)]; });
  return blocks;
}

// Rounds one row of weights.
class Row {
 public:
  Row(const InputFactor& factor, const std::vector<float>& importance)
      : factor_(factor), importance_(importance), left_(static_cast<size_t>(factor.width())) {}

  template <class T>
  void round(const T* values, std::byte* quants, uint16_t* words) {
    const std::vector<int64_t>& blocks = factor_.blocks();
    for (size_t at = 0; at < blocks.size(); ++at)
      for (int64_t i = 0; i < kBlock; ++i)
        left_[at * kBlock + static_cast<size_t>(i)] = static_cast<float>(values[blocks[at] * kBlock + i]);
    for (size_t at = 0; at < blocks.size(); ++at)
      words[blocks[at]] = round_block(static_cast<int64_t>(at) * kBlock, quants + blocks[at] * kBlock / 2);
  }

 private:
  uint16_t round_block(int64_t begin, std::byte* quants) {
    float* const x = left_.data() + begin;
    const uint16_t word = fit_q4m(x, importance_.data() + begin);
    const Q4mGrid grid(word);
    std::array<float, kBlock> errors{};
    for (int64_t i = 0; i < kBlock; ++i) {
      const float* u = factor_.row(begin + i) + begin;
      const float quant = grid.quant(x[i]), error = (x[i] - grid.value(quant)) / u[i];
      const auto bits = static_cast<std::byte>(static_cast<int>(quant));
      quants[i % 16] = i < 16 ? bits : quants[i % 16] | bits << 4;
      errors[static_cast<size_t>(i)] = error;
      for (int64_t j = i + 1; j < kBlock; ++j) x[j] -= error * u[j];
    }
    spread(begin, errors);
    return word;
  }

  // Makes up for the errors of a block in all values that follow it.
  void spread(int64_t begin, const std::array<float, kBlock>& errors) {
    const int64_t after = begin + kBlock, count = factor_.width() - after;
    float* const x = left_.data() + after;
    for (int64_t i = 0; i < kBlock; i += 4) {
      const float* u[4];
      for (int64_t j = 0; j < 4; ++j) u[j] = factor_.row(begin + i + j) + after;
      const float* e = errors.data() + i;
      for (int64_t j = 0; j < count; ++j)
        x[j] -= (e[0] * u[0][j] + e[1] * u[1][j]) + (e[2] * u[2][j] + e[3] * u[3][j]);
    }
  }

  const InputFactor& factor_;
  const std::vector<float>& importance_;
  std::vector<float> left_;  // the values that are not rounded yet, in the order of rounding
};

// Returns how much the square of each value's error counts.
std::vector<float> importance_of(const InputFactor& factor) {
  std::vector<float> importance(static_cast<size_t>(factor.width()));
  float greatest = 0;
  for (int64_t i = 0; i < factor.width(); ++i) {
    const float u = factor.row(i)[i];
    importance[static_cast<size_t>(i)] = 1 / (u * u);
    greatest = std::max(greatest, importance[static_cast<size_t>(i)]);
  }
  for (float& one : importance) one = std::max(one / greatest, 1e-12f);
  return importance;
}

}  // namespace

InputFactor::InputFactor(std::span<const float> gram, int64_t width)
    : width_(width), blocks_(by_power(gram, width)), upper_(static_cast<size_t>(width * width)) {
  const auto original = [&](int64_t i) {
    return blocks_[static_cast<size_t>(i / kBlock)] * kBlock + i % kBlock;
  };
  Square a(width);
  double power = 0;
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = i; j < width; ++j)
      a.row(i)[j] = gram[static_cast<size_t>(original(i) * width + original(j))];
    power += a.row(i)[i];
  }
  if (!std::isfinite(power)) fail("the inputs of a product are not finite");
  const double damping = power > 0 ? kDamping * power / static_cast<double>(width) : 1;
  for (int64_t i = 0; i < width; ++i) a.row(i)[i] += damping;
  factor_from_the_end(a);
  invert_upper(a, upper_);
}

EncodedValues round_calibrated(const StateFormat& format, const Tensor& values, const InputFactor& factor) {
  const TensorType& type = values.type();
  if (const auto why = format.why_not(type))
    fail("a {} cannot be kept as {}: {}", type.to_string(), format.name, *why);
  const int64_t width = factor.width(), rows = type.numel() / width;
  if (format.first_refused(values.data(), type.numel()) >= 0)
    fail("it has values that {} cannot hold", format.name);
  EncodedValues made{&format, {}};
  StateFormat::Parts parts{};
  for (size_t i = 0; i < format.parts.size(); ++i)
    made.parts.push_back(Tensor::uninitialized(format.part_type(i, type), &parts[i]));
  const std::vector<float> importance = importance_of(factor);
  dispatch(type.dtype, [&](auto tag) {
    const auto* from = values.as<typename decltype(tag)::type>().data();
    in_parallel(rows, kGrain, [&](int64_t first, int64_t last) {
      Row row(factor, importance);
      for (int64_t i = first; i < last; ++i) {
        if constexpr (std::is_convertible_v<typename decltype(tag)::type, float>)
          row.round(from + i * width, parts[0] + i * width / 2,
                    reinterpret_cast<uint16_t*>(parts[1]) + i * width / kBlock);
      }
    });
  });
  return made;
}

}  // namespace genesis
