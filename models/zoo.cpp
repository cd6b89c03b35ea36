#include "models/zoo.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "builder/skip_init.h"
#include "executor/state_dict.h"
#include "models/families.h"
#include "passes/core/cache_size.h"
#include "passes/lora/lora.h"
#include "passes/precision/cast_precision.h"
#include "schema/file/json_text.h"
#include "schema/graph/caches.h"
#include "schema/graph/near_names.h"

namespace genesis::models {

std::vector<ZooModel> list_models() {
  std::vector<ZooModel> models;
  for (const Family& family : families()) {
    ZooModel& model = models.emplace_back(ZooModel{family.name, family.summary, {}});
    for (const auto& [name, value] : family.network.settings.items())
      model.settings.emplace_back(name, value.dump());
  }
  return models;
}

std::unique_ptr<Model> make_model(const std::string& name, const Settings& settings, uint64_t seed) {
  if (const Family* family = find_family(name)) return family->network.make(name, settings, seed);
  std::vector<std::string> known;
  for (const Family& family : families()) known.push_back(family.name);
  fail("no model '{}' in the zoo{}; there are: {}", name, did_you_mean(name, known), fmt::join(known, ", "));
}

std::unique_ptr<Model> make_uninitialized_model(const std::string& name, const Settings& settings) {
  const init::SkipInit skip_init;
  return make_model(name, settings);
}

namespace {

// Returns the config as JSON. The result is no object if the model has no config or it cannot be parsed.
nlohmann::json config_of(const Model& model) {
  const auto config = model.metadata.find("config");
  if (config == model.metadata.end()) return {};
  return try_parse_json_text(config->second);
}

// Returns the settings that a model of the zoo was made with. Throws Error for any other model.
Settings settings_of(const Model& model) {
  if (!model.metadata.contains("architecture") || !model.metadata.contains("config"))
    fail(
        "a model without 'architecture' and 'config' in its metadata is not from the zoo: its cache cannot "
        "be changed");
  const nlohmann::json json = config_of(model);
  if (!json.is_object()) fail("the model's metadata has a 'config' that is no JSON object");
  Settings settings;
  for (const auto& [key, value] : json.items())
    settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return settings;
}

// Returns the float dtype that the weights of `model` were cast to, if it differs from their dtype in `made`: the config does not
// record a cast.
std::optional<DType> cast_to(const Model& model, const Model& made) {
  for (const State& state : made.states()) {
    const int32_t index = model.find_state(state.name);
    const DType dtype = index < 0 ? state.type.dtype : model.state(index).type.dtype;
    if (is_in_state_dict(state) && dtype != state.type.dtype && is_float(dtype)) return dtype;
  }
  return std::nullopt;
}

// Makes the model that the settings describe, in the precision of `model` and with its adapters.
std::unique_ptr<Model> make_like(const Model& model, const Settings& settings) {
  std::unique_ptr<Model> made = make_uninitialized_model(model.metadata.at("architecture"), settings);
  if (const auto dtype = cast_to(model, *made); dtype && size_of(*dtype) == 2)
    made = passes::cast_precision(*made, *dtype);
  if (const auto adapters = passes::lora_of(model)) passes::add_lora(*made, *adapters);
  return made;
}

// Returns advice to append to an error about a model whose states are not those of its architecture.
std::string way_out(const Model& model) {
  return passes::lora_of(model) ? "; merge its adapters with `genesis-opt FILE --merge-lora -o MERGED`" : "";
}

void share_weights(const Model& from, Model& to) {
  for (const State& state : from.states())
    if (is_in_state_dict(state) && to.find_state(state.name) < 0)
      fail("the model has a state '{}' that its architecture does not have: its cache cannot be changed{}",
           state.name, way_out(from));
  for (const State& state : std::vector(to.states())) {
    if (!is_in_state_dict(state)) continue;
    const int32_t source = from.find_state(state.name);
    if (source < 0 || !(from.state(source).type == state.type))
      fail("state '{}' is {}, the model's architecture has it as {}: its cache cannot be changed{}",
           state.name, source < 0 ? "missing" : from.state(source).type.to_string(), state.type.to_string(),
           way_out(from));
    const int32_t index = to.find_state(state.name);
    to.set_trainable(index, from.state(source).trainable);
    if (const EncodedValues& encoded = from.state(source).encoded)
      to.set_encoded(index, encoded);
    else
      to.set_initial(index, from.state(source).initial);
  }
}

// Returns a setting that is a size; 0 if the config does not have it.
int64_t size_in(const nlohmann::json& config, const char* name) {
  if (!config.is_object()) return 0;
  const auto at = config.find(name);
  return at != config.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
}

int64_t longest_text_by(const nlohmann::json& config) {
  return std::max(size_in(config, "max_position_embeddings"), size_in(config, "n_positions"));
}

// Throws Error if the model learned fewer positions than the cache would have.
void check_positions(const Model& model, int64_t positions) {
  const int64_t learned = size_in(config_of(model), "n_positions");
  if (learned > 0 && positions > learned)
    fail("cache_positions is {}, it must be at most n_positions {}", positions, learned);
}

// Returns true for a model whose entry points are for one row only: older versions wrote them where the cache has one row.
bool reads_one_row(const Model& model) {
  const Graph* prefill = model.find_entry("prefill");
  return prefill && std::ranges::none_of(prefill->inputs(), [&](ValueId input) {
           return prefill->value(input).name == "length";
         });
}

// Returns the model of the zoo that `model` is, made anew with a cache of this size.
std::unique_ptr<Model> rebuilt(const Model& model, const CacheSize& size) {
  Settings settings = settings_of(model);
  settings["batch"] = std::to_string(size.rows);
  settings["cache_positions"] = std::to_string(size.positions);
  std::unique_ptr<Model> made = make_like(model, settings);
  share_weights(model, *made);
  made->describe_as(model);
  return made;
}

// Writes the size into the config of a model of the zoo; other configs stay as they are.
void note_in_config(Model& model, const CacheSize& size) {
  const auto at = model.metadata.find("config");
  if (at == model.metadata.end() || !config_of(model).is_object()) return;
  nlohmann::ordered_json config = parse_ordered_json_text(at->second);
  if (config.contains("batch")) config["batch"] = size.rows;
  if (config.contains("cache_positions")) config["cache_positions"] = size.positions;
  at->second = config.dump();
}

}  // namespace

std::unique_ptr<Model> with_cache(const Model& model, int64_t rows, int64_t positions) {
  if (rows <= 0 || positions <= 0)
    fail("a KV cache of {} rows of {} positions: both must be positive", rows, positions);
  if (!model.find_entry("decode"))
    fail("the model has no entry point 'decode': it is no language model with a KV cache");
  check_positions(model, positions);
  const CacheSize size{rows, positions};
  std::unique_ptr<Model> made =
      rows > 1 && reads_one_row(model) ? rebuilt(model, size) : passes::with_cache_size(model, size);
  note_in_config(*made, size);
  return made;
}

int64_t longest_text(const Model& model) {
  const nlohmann::json config = config_of(model);
  const auto name = model.metadata.find("architecture");
  const Family* family = name == model.metadata.end() ? nullptr : find_family(name->second);
  if (!family || !family->longest_text || !config.is_object()) return longest_text_by(config);
  return family->longest_text(family->network.complete(family->name, config));
}

int64_t positions_for(const Model& model, int64_t tokens) {
  const std::optional<CacheSize> cache = cache_size(model);
  if (!cache) return 0;
  const int64_t longest = longest_text(model), wanted = std::min(tokens, longest);
  if (wanted <= cache->positions) return cache->positions;
  const int64_t positions =
      std::min(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))), longest);
  check_positions(model, positions);
  return positions;
}

std::shared_ptr<const Model> with_room(const std::shared_ptr<const Model>& model, int64_t tokens) {
  const std::optional<CacheSize> cache = cache_size(*model);
  const int64_t positions = positions_for(*model, tokens);
  if (!cache || positions == cache->positions) return model;
  return with_cache(*model, cache->rows, positions);
}

}  // namespace genesis::models
