// Columns of a page's data: one array a field, as tools/viz/page/data.d.ts says.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace genesis::viz {

using Json = nlohmann::ordered_json;

// What each number adds to the one before; the first to 0. Numbers that grow evenly become the same few digits.
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

// null stands for what JSON cannot say.
inline Json finite(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

inline Json finite(const std::vector<double>& numbers) {
  Json column = Json::array();
  for (const double number : numbers) column.push_back(finite(number));
  return column;
}

}  // namespace genesis::viz
