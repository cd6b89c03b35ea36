// The encoders that tests/models/hugging_face/make_encoders.py makes, and helpers to run them.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "executor/session.h"
#include "models/formats/hugging_face/import.h"
#include "tests/models/checkpoints.h"

namespace genesis::testing {

inline std::filesystem::path encoder_folder(const std::string& name) {
  return checkpoints() / "encoders" / name;
}

inline const nlohmann::json& expected_encoders() {
  static const nlohmann::json contents = read_json(encoder_folder("expected.json"));
  return contents;
}

inline std::shared_ptr<Model> import_encoder(const std::string& name, const models::Settings& changes = {}) {
  return models::hugging_face::import_model(encoder_folder(name), changes);
}

inline std::vector<double> numbers_in(const nlohmann::json& value) {
  if (!value.is_array()) return {value.get<double>()};
  std::vector<double> all;
  for (const auto& item : value)
    for (const double number : numbers_in(item)) all.push_back(number);
  return all;
}

inline double greatest_distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
  return greatest;
}

inline bool takes_input(const Model& model, const std::string& entry, const std::string& name) {
  const Graph& graph = model.entry(entry);
  return std::ranges::any_of(graph.inputs(), [&](ValueId input) { return graph.value(input).name == name; });
}

// Returns rows `first` to `last` of the batch of expected.json, without padding behind the longest of them.
inline NamedTensors encoder_batch(const Model& model, const nlohmann::json& about, const std::string& entry,
                                  size_t first = 0, size_t last = 3) {
  std::vector<int64_t> lengths, tokens, types;
  for (size_t row = first; row < last; ++row) lengths.push_back(expected_encoders()["lengths"][row]);
  const auto seq = static_cast<size_t>(*std::ranges::max_element(lengths));
  for (size_t row = first; row < last; ++row)
    for (size_t i = 0; i < seq; ++i) {
      tokens.push_back(about["tokens"][row][i]);
      types.push_back(about["types"][row][i]);
    }
  const std::vector<int64_t> sizes = {std::ssize(lengths), static_cast<int64_t>(seq)};
  NamedTensors inputs = {{"tokens", Tensor::of(sizes, tokens)}, {"lengths", Tensor::of(lengths)}};
  if (takes_input(model, entry, "token_types")) inputs.emplace("token_types", Tensor::of(sizes, types));
  return inputs;
}

// Returns the results of the tokens that are not padding: of [batch, seq, features] with these lengths; all of [batch, features].
inline std::vector<double> real_results(const Tensor& result, const Tensor& lengths) {
  const std::vector<double> all = result.to_doubles();
  if (result.rank() != 3) return all;
  std::vector<double> real;
  for (int64_t row = 0; row < result.size(0); ++row) {
    const auto begin = all.begin() + row * result.size(1) * result.size(2);
    real.insert(real.end(), begin, begin + lengths.as<int64_t>()[static_cast<size_t>(row)] * result.size(2));
  }
  return real;
}

}  // namespace genesis::testing
