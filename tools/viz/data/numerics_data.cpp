#include "tools/viz/data/numerics_data.h"

#include <algorithm>
#include <limits>

namespace genesis::viz {
namespace {

constexpr size_t kCells = 48;

struct Bounds {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void take(const std::vector<double>& numbers) {
    for (const double number : numbers)
      if (std::isfinite(number)) low = std::min(low, number), high = std::max(high, number);
  }
};

// Returns the borders of the histogram's cells: one cell if all numbers are equal, none if there are no numbers.
std::vector<double> edges_between(const Bounds& bounds) {
  if (bounds.low > bounds.high) return {};
  if (bounds.low == bounds.high) return {bounds.low, bounds.high};
  std::vector<double> edges;
  for (size_t i = 0; i < kCells; ++i) {
    const double part = static_cast<double>(i) / kCells;
    edges.push_back(bounds.low * (1 - part) + bounds.high * part);
  }
  edges.push_back(bounds.high);
  return edges;
}

std::vector<int64_t> counts_between(const std::vector<double>& edges, const std::vector<double>& numbers) {
  if (edges.empty()) return {};
  std::vector<int64_t> counts(edges.size() - 1, 0);
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    const auto above = std::ranges::upper_bound(edges, number) - edges.begin();
    ++counts[std::min(static_cast<size_t>(std::max<int64_t>(above, 1)) - 1, counts.size() - 1)];
  }
  return counts;
}

Json special_data(const std::vector<double>& numbers) {
  int64_t nan = 0, positive = 0, negative = 0, zero = 0;
  for (const double number : numbers) {
    nan += std::isnan(number);
    zero += number == 0;
    positive += std::isinf(number) && number > 0;
    negative += std::isinf(number) && number < 0;
  }
  return {{"nan", nan}, {"positive_infinity", positive}, {"negative_infinity", negative}, {"zero", zero}};
}

double at(const std::vector<double>& numbers, int64_t index) {
  return index < static_cast<int64_t>(numbers.size()) ? numbers[static_cast<size_t>(index)] : std::nan("");
}

Json first_data(const FirstDifference& first, Tables& tables) {
  return {{"node", tables.path(first.value.node)},
          {"author", tables.path(first.value.author)},
          {"op", first.value.op},
          {"element", first.element},
          {"a", finite(at(first.a, first.element))},
          {"b", finite(at(first.b, first.element))},
          {"error", finite(first.value.error)},
          {"tolerance", finite(first.value.tolerance)},
          {"message", first.message},
          {"histogram", histogram_data(first.a, first.b)}};
}

}  // namespace

Json histogram_data(const std::vector<double>& a, const std::vector<double>& b) {
  Bounds bounds;
  bounds.take(a);
  bounds.take(b);
  const std::vector<double> edges = edges_between(bounds);
  return {{"edges", edges},
          {"a", counts_between(edges, a)},
          {"b", b.empty() ? Json::array() : Json(counts_between(edges, b))},
          {"a_special", special_data(a)},
          {"b_special", special_data(b)}};
}

Json numerics_data(const Comparison& comparison, Tables& tables) {
  std::vector<int32_t> name, op;
  std::vector<double> error, tolerance;
  for (const ComparedValue& value : comparison.values) {
    name.push_back(tables.path(value.node));
    op.push_back(tables.string(value.op));
    error.push_back(value.error);
    tolerance.push_back(value.tolerance);
  }
  Json data{
      {"kind", "compare"},
      {"entry", comparison.entry},
      {"a", comparison.a},
      {"b", comparison.b},
      {"criterion", comparison.criterion},
      {"compared", comparison.values.size()},
      {"nodes", {{"name", name}, {"op", op}, {"error", finite(error)}, {"tolerance", finite(tolerance)}}}};
  if (!comparison.first.empty()) data["first"] = first_data(comparison.first.front(), tables);
  return data;
}

namespace {

Json one_histogram(const Tensor& tensor) { return histogram_data(tensor.to_doubles(), {}); }

void add_values(const char* role, const std::vector<std::optional<Tensor>>& tensors, Json& values) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i] && is_float(tensors[i]->type().dtype))
      values.push_back({{"role", role},
                        {"index", i},
                        {"type", tensors[i]->type().to_string()},
                        {"histogram", one_histogram(*tensors[i])}});
}

}  // namespace

Json nonfinite_data(const NonfiniteError& error, const std::string& ran, Tables& tables) {
  const NonfiniteError::Found& found = error.found();
  Json values = Json::array();
  add_values("output", found.outputs, values);
  add_values("input", found.inputs, values);
  const std::optional<Tensor>& result = found.outputs[found.output];
  const Json none = nullptr;
  Json first{{"node", tables.path(found.node)},
             {"author", tables.path(found.author)},
             {"op", found.op},
             {"element", found.element},
             {"a", none},
             {"b", none},
             {"error", none},
             {"tolerance", none},
             {"message", error.message()},
             {"histogram", result ? one_histogram(*result) : histogram_data({}, {})},
             {"values", values}};
  return {{"kind", "nonfinite"},
          {"entry", found.entry},
          {"a", ran},
          {"b", ""},
          {"criterion", "that is not finite"},
          {"compared", 0},
          {"nodes",
           {{"name", Json::array()},
            {"op", Json::array()},
            {"error", Json::array()},
            {"tolerance", Json::array()}}},
          {"first", first}};
}

}  // namespace genesis::viz
