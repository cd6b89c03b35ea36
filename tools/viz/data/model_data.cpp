#include "tools/viz/data/model_data.h"

#include <algorithm>

#include "schema/graph/state_storage.h"
#include "tools/viz/data/value_summary.h"

namespace genesis::viz {
namespace {

Json states_data(const Model& model, Tables& tables) {
  std::vector<int32_t> name, type, role, trainable, format;
  std::vector<int64_t> bytes;
  for (const State& state : model.states()) {
    name.push_back(tables.path(state.name));
    type.push_back(tables.type(state.type));
    bytes.push_back(kept_bytes(state));
    role.push_back(tables.string(name_of(state.role)));
    trainable.push_back(state.trainable ? 1 : 0);
    format.push_back(state.encoded ? tables.string(state.encoded.format->name) : -1);
  }
  return {{"name", deltas(name)}, {"type", type},           {"bytes", bytes},
          {"role", role},         {"trainable", trainable}, {"format", format}};
}

// Returns summaries of the states' values; null for states that are still zeros without values (optimizer states
// before training).
Json values_of_states(const Model& model, const OnProgress& progress) {
  Json values = Json::array();
  uint64_t done = 0, total = 0;
  for (const State& state : model.states()) total += static_cast<uint64_t>(kept_bytes(state));
  for (const State& state : model.states()) {
    if (progress) progress("looking at the values of states", done, total);
    done += static_cast<uint64_t>(kept_bytes(state));
    const bool has_values = state.encoded || !state.initial.empty_handle();
    values.push_back(has_values ? value_summary(initial_value(state)) : Json(nullptr));
  }
  return values;
}

Json values_of_tensors(const Model& model) {
  Json values = Json::array();
  for (const NamedTensor& tensor : model.tensors()) values.push_back(value_summary(tensor.tensor));
  return values;
}

Json tensors_data(const Model& model, Tables& tables) {
  std::vector<int32_t> name, type;
  std::vector<int64_t> bytes;
  for (const NamedTensor& tensor : model.tensors()) {
    name.push_back(tables.path(tensor.name));
    type.push_back(tables.type(tensor.tensor.type()));
    bytes.push_back(tensor.tensor.bytes());
  }
  return {{"name", deltas(name)}, {"type", type}, {"bytes", bytes}};
}

bool is_wanted(const ModelOptions& options, const std::string& entry) {
  return options.entries.empty() || std::ranges::find(options.entries, entry) != options.entries.end();
}

}  // namespace

Json model_data(const Model& model, const std::filesystem::path& file, const ModelOptions& options,
                Tables& tables) {
  for (const std::string& entry : options.entries) static_cast<void>(model.entry(entry));
  Json data{{"format", "genesis"}, {"file", file.string()}, {"file_bytes", size_of_file(file)}};
  data["metadata"] = data["files"] = data["entries"] = Json::array();
  for (const auto& [key, value] : model.metadata) data["metadata"].push_back({key, value});
  for (const auto& [name, bytes] : model.files) data["files"].push_back({name, bytes.bytes()});
  data["states"] = states_data(model, tables);
  data["tensors"] = tensors_data(model, tables);
  if (options.values) {
    data["states"]["values"] = values_of_states(model, options.entry.progress);
    data["tensors"]["values"] = values_of_tensors(model);
  }
  EntryOptions entry = options.entry;
  entry.assumed = assumed_sizes(model, options.sizes, options.entry.session.mesh.ranks());
  entry.sizes = options.sizes;
  entry.sizes.insert(entry.assumed.begin(), entry.assumed.end());
  for (const auto& graph : model.entries())
    if (is_wanted(options, graph->name()))
      data["entries"].push_back(entry_data(model, *graph, entry, tables).json);
  return data;
}

int64_t kept_bytes(const State& state) {
  if (!state.encoded) return state.type.bytes();
  int64_t bytes = 0;
  for (const Tensor& part : state.encoded.parts) bytes += part.bytes();
  return bytes;
}

int64_t size_of_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

}  // namespace genesis::viz
