#include "tools/viz/data/difference_data.h"

#include <algorithm>
#include <cstring>

#include "schema/graph/state_storage.h"
#include "tools/viz/data/graph_data.h"
#include "tools/viz/data/model_data.h"
#include "tools/viz/data/value_summary.h"

namespace genesis::viz {
namespace {

enum class Status : int32_t { kSame = 0, kAdded = 1, kGone = 2, kOtherValues = 3, kOtherType = 4 };

struct StateColumns {
  std::vector<int32_t> name, status;
  std::vector<double> max_abs, cosine;
  std::vector<int64_t> bytes_before, bytes_after;

  void add(int32_t path, Status what, const State* before, const State* after,
           const ValueDifference& values) {
    const bool is_compared = what == Status::kSame || what == Status::kOtherValues;
    name.push_back(path);
    status.push_back(static_cast<int32_t>(what));
    max_abs.push_back(is_compared ? values.max_abs : std::nan(""));
    cosine.push_back(is_compared ? values.cosine : std::nan(""));
    bytes_before.push_back(before ? kept_bytes(*before) : 0);
    bytes_after.push_back(after ? kept_bytes(*after) : 0);
  }
};

bool starts_from_zeros(const State& state) { return state.initial.empty_handle() && !state.encoded; }

// Compares two states. States without values in both models (optimizer states before training) are not materialized.
ValueDifference compare_states(const State& before, const State& after) {
  if (starts_from_zeros(before) && starts_from_zeros(after)) return {.cosine = std::nan("")};
  return compare_values(initial_value(before), initial_value(after));
}

Json states_difference(const Model& before, const Model& after, Tables& tables, const OnProgress& progress) {
  StateColumns columns;
  uint64_t done = 0, total = 0;
  for (const State& state : before.states()) total += static_cast<uint64_t>(kept_bytes(state));
  for (const State& state : before.states()) {
    if (progress) progress("comparing states", done, total);
    done += static_cast<uint64_t>(kept_bytes(state));
    const int32_t path = tables.path(state.name), at = after.find_state(state.name);
    if (at < 0) {
      columns.add(path, Status::kGone, &state, nullptr, {});
      continue;
    }
    const State& other = after.state(at);
    if (!(state.type == other.type)) {
      columns.add(path, Status::kOtherType, &state, &other, {});
      continue;
    }
    const ValueDifference values = compare_states(state, other);
    columns.add(path, values.same_bits ? Status::kSame : Status::kOtherValues, &state, &other, values);
  }
  for (const State& state : after.states())
    if (before.find_state(state.name) < 0)
      columns.add(tables.path(state.name), Status::kAdded, nullptr, &state, {});
  return {{"name", deltas(columns.name)},         {"status", columns.status},
          {"max_abs", finite(columns.max_abs)},   {"cosine", finite(columns.cosine)},
          {"bytes_before", columns.bytes_before}, {"bytes_after", columns.bytes_after}};
}

// Returns the place of the entry point in the model; -1 if the page does not show it.
int place_of(const Json& model, const std::string& entry) {
  int place = 0;
  for (const Json& each : model["entries"]) {
    if (each["name"] == entry) return place;
    ++place;
  }
  return -1;
}

}  // namespace

Json difference_data(const Model& before, const Json& before_page, const Model& after, const Json& after_page,
                     Tables& tables, const OnProgress& progress) {
  Json entries = Json::array();
  for (const auto& entry : before.entries()) {
    const int a = place_of(before_page, entry->name()), b = place_of(after_page, entry->name());
    if (a < 0) continue;
    Json row{{"name", entry->name()}, {"before", a}, {"after", b}};
    row["change"] = b < 0
                        ? Json{{"added", Json::array()}, {"gone", Json::array()}, {"changed", Json::array()}}
                        : change_data(*entry, after.entry(entry->name()));
    entries.push_back(row);
  }
  for (const auto& entry : after.entries())
    if (place_of(before_page, entry->name()) < 0 && place_of(after_page, entry->name()) >= 0)
      entries.push_back(
          {{"name", entry->name()},
           {"before", -1},
           {"after", place_of(after_page, entry->name())},
           {"change", {{"added", Json::array()}, {"gone", Json::array()}, {"changed", Json::array()}}}});
  return {{"entries", entries}, {"states", states_difference(before, after, tables, progress)}};
}

ValueDifference compare_values(const Tensor& a, const Tensor& b) {
  constexpr int64_t kPiece = 1 << 16;
  ValueDifference result;
  double dot = 0, a_squares = 0, b_squares = 0;
  bool is_finite = true;
  for (int64_t first = 0; first < a.numel(); first += kPiece) {
    const int64_t count = std::min(kPiece, a.numel() - first);
    const std::vector<double> x = numbers_of(a, first, count), y = numbers_of(b, first, count);
    result.same_bits &= std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
    for (size_t i = 0; i < x.size(); ++i) {
      is_finite &= std::isfinite(x[i]) && std::isfinite(y[i]);
      result.max_abs = std::max(result.max_abs, std::abs(x[i] - y[i]));
      dot += x[i] * y[i];
      a_squares += x[i] * x[i];
      b_squares += y[i] * y[i];
    }
  }
  if (!is_finite) result.max_abs = std::nan("");
  const double norms = std::sqrt(a_squares) * std::sqrt(b_squares);
  result.cosine = is_finite && norms > 0 ? dot / norms : std::nan("");
  return result;
}

}  // namespace genesis::viz
