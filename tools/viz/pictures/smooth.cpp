#include "tools/viz/pictures/smooth.h"

#include <algorithm>
#include <cstddef>

namespace genesis::viz {
namespace {

// Prefix sums of y and of x * y, with which a fit takes constant time for any width.
class Sums {
 public:
  explicit Sums(const std::vector<double>& values) : y_(values.size() + 1, 0), xy_(values.size() + 1, 0) {
    for (size_t i = 0; i < values.size(); ++i) {
      y_[i + 1] = y_[i] + values[i];
      xy_[i + 1] = xy_[i] + static_cast<double>(i) * values[i];
    }
  }

  // Returns the value at `at` of the line fitted to the points [begin, end).
  double fit(size_t begin, size_t end, size_t at) const {
    const auto count = static_cast<double>(end - begin);
    const double middle = (static_cast<double>(begin) + static_cast<double>(end) - 1) / 2;
    const double sum = y_[end] - y_[begin];
    if (end - begin < 2) return sum;
    const double slope = (xy_[end] - xy_[begin] - middle * sum) / (count * (count * count - 1) / 12);
    return sum / count + slope * (static_cast<double>(at) - middle);
  }

 private:
  std::vector<double> y_, xy_;
};

}  // namespace

std::vector<double> smooth(const std::vector<double>& values) {
  const Sums sums(values);
  const size_t most = std::max<size_t>(2, values.size() / 20);
  std::vector<double> out;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t reach = std::min(most, 1 + i / 4);
    out.push_back(sums.fit(i - std::min(i, reach), std::min(values.size(), i + reach + 1), i));
  }
  return out;
}

}  // namespace genesis::viz
