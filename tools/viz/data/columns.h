// Columns of a page's data: one array per field, as tools/viz/page/data.d.ts declares.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace genesis::viz {

using Json = nlohmann::ordered_json;

// Returns the difference of each number to the one before; the first is relative to 0. Evenly growing numbers give
// the same few digits, which compress well.
template <class Number>
Json deltas(const std::vector<Number>& numbers) {
  std::vector<Number> differences;
  differences.reserve(numbers.size());
  Number last = 0;
  for (const Number number : numbers) {
    differences.push_back(number - last);
    last = number;
  }
  return differences;
}

// Returns null for a number that JSON cannot represent.
inline Json finite(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

inline Json finite(const std::vector<double>& numbers) {
  Json column = Json::array();
  for (const double number : numbers) column.push_back(finite(number));
  return column;
}

}  // namespace genesis::viz
