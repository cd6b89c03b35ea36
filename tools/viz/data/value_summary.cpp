#include "tools/viz/data/value_summary.h"

#include <algorithm>
#include <limits>

namespace genesis::viz {
namespace {

constexpr int64_t kPiece = 1 << 16;
constexpr int64_t kFirst = 32;  // values shown one by one
constexpr size_t kCells = 32;   // cells of the histogram

template <class Use>
void for_each_value(const Tensor& tensor, const Use& use) {
  for (int64_t first = 0; first < tensor.numel(); first += kPiece)
    for (const double value : numbers_of(tensor, first, std::min(kPiece, tensor.numel() - first))) use(value);
}

struct Moments {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0, squares = 0;
  int64_t finite = 0, zeros = 0, not_finite = 0;

  void add(double value) {
    if (!std::isfinite(value)) {
      ++not_finite;
      return;
    }
    ++finite;
    zeros += value == 0;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    squares += value * value;
  }
  double mean() const { return sum / static_cast<double>(finite); }
  double deviation() const {
    return std::sqrt(std::max(0.0, squares / static_cast<double>(finite) - mean() * mean()));
  }
};

// Returns counts in cells of equal width from the smallest to the largest finite value.
std::vector<int64_t> counts_of(const Tensor& tensor, const Moments& moments) {
  if (moments.finite == 0) return {};
  if (moments.low == moments.high) return {moments.finite};
  std::vector<int64_t> counts(kCells, 0);
  for_each_value(tensor, [&](double value) {
    if (!std::isfinite(value)) return;
    const double share = (value / 2 - moments.low / 2) / (moments.high / 2 - moments.low / 2);
    ++counts[std::min(kCells - 1, static_cast<size_t>(share * kCells))];
  });
  return counts;
}

}  // namespace

std::vector<double> numbers_of(const Tensor& tensor, int64_t first, int64_t count) {
  const auto offset = static_cast<size_t>(first) * size_of(tensor.type().dtype);
  return Tensor({tensor.type().dtype, {count}}, nullptr, tensor.data() + offset).to_doubles();
}

Json value_summary(const Tensor& tensor) {
  Moments moments;
  for_each_value(tensor, [&](double value) { moments.add(value); });
  const auto known = [&](double number) { return moments.finite > 0 ? finite(number) : Json(nullptr); };
  return {{"low", known(moments.low)},
          {"high", known(moments.high)},
          {"mean", known(moments.mean())},
          {"deviation", known(moments.deviation())},
          {"zeros", moments.zeros},
          {"not_finite", moments.not_finite},
          {"first", finite(numbers_of(tensor, 0, std::min(kFirst, tensor.numel())))},
          {"counts", counts_of(tensor, moments)}};
}

}  // namespace genesis::viz
