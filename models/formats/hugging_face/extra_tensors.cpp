#include "models/formats/hugging_face/extra_tensors.h"

#include <algorithm>
#include <set>

#include "executor/state_dict.h"
#include "passes/core/name_patterns.h"
#include "schema/messages/log.h"

namespace genesis::models::hugging_face {
namespace {

// Returns the module of a tensor: "lm_head" for "lm_head.weight". It is one level deeper below "model", "transformer" and the names of
// encoders, which contain the whole model but its head, and below the heads "cls": "model.layers" for
// "model.layers.0.mlp.up_proj.weight".
std::string module_of(const std::string& name) {
  static const std::set<std::string> kWhole = {"model",      "transformer", "bert", "roberta",
                                               "distilbert", "mpnet",       "cls"};
  const size_t first = name.find('.');
  if (!kWhole.contains(name.substr(0, first))) return name.substr(0, first);
  return name.substr(0, name.find('.', first + 1));
}

bool has_state(const Model& model, const std::string& name) {
  const int32_t state = model.find_state(name);
  return state >= 0 && is_kept(model.state(state));
}

std::vector<std::string> extra_names(const Model& model, const CheckpointWeights& weights) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : weights.tensors)
    if (!has_state(model, name)) names.push_back(name);
  for (const auto& [name, dtype] : weights.unsupported)
    if (!has_state(model, name)) names.push_back(name);
  return names;
}

void check_dtypes(const Model& model, const CheckpointWeights& weights) {
  if (weights.unsupported.empty()) return;
  std::vector<std::string> problems;
  bool can_ignore = true;
  for (const auto& [name, dtype] : weights.unsupported) {
    problems.push_back(fmt::format("{} ({})", name, dtype));
    can_ignore = can_ignore && !has_state(model, name);
  }
  fail("the dtypes of {} tensors are not supported: {}\n  {}", problems.size(), listed(problems),
       can_ignore ? "the model has no place for them: --ignore-extra PATTERN leaves them out"
                  : "save the weights as F32, BF16 or F16; for quantized weights, config.json has to say in "
                    "quantization_config how they are quantized");
}

}  // namespace

void warn_of_useless_patterns(const std::vector<std::string>& extra,
                              const std::vector<std::string>& ignored) {
  for (const std::string& pattern : ignored)
    if (std::ranges::none_of(extra, [&](const auto& name) { return passes::matches_any({pattern}, name); }))
      log_warning("--ignore-extra '{}' matches no tensor that the model has no place for", pattern);
}

void leave_out_extra_tensors(const Model& model, CheckpointWeights& weights,
                             const std::vector<std::string>& ignored) {
  std::set<std::string> modules;
  for (const State& state : model.states()) modules.insert(module_of(state.name));
  const std::vector<std::string> extra = extra_names(model, weights);
  warn_of_useless_patterns(extra, ignored);
  std::vector<std::string> told;
  for (const std::string& name : extra) {
    const bool asked_for = passes::matches_any(ignored, name);
    if (!asked_for && modules.contains(module_of(name))) continue;
    if (!asked_for) told.push_back(name);
    weights.tensors.erase(name);
    weights.encoded.erase(name);
    weights.unsupported.erase(name);
  }
  if (!told.empty())
    log_warning("these tensors are left out, for the model has no such module: {}", listed(told));
  check_dtypes(model, weights);
}

}  // namespace genesis::models::hugging_face
