#include "tools/chat/banner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "models/text/sampling_settings.h"
#include "tools/common/printable.h"
#include "tools/common/tool.h"

namespace genesis::tools {
namespace {

// Returns the formats in which the parameters are stored, the most common first, as "bf16" or "q8, f32". Formats of
// less than a hundredth of the most common one's elements are left out.
std::string kept_as(const Model& model) {
  std::map<std::string, int64_t> elements;
  for (const State& state : model.states())
    if (state.role == StateRole::kParameter)
      elements[state.encoded ? std::string(state.encoded.format->name)
                             : std::string(name_of(state.type.dtype))] += state.type.numel();
  std::vector<std::pair<std::string, int64_t>> kinds(elements.begin(), elements.end());
  std::ranges::stable_sort(kinds, std::ranges::greater(), &std::pair<std::string, int64_t>::second);
  std::vector<std::string> names;
  for (const auto& [name, count] : kinds)
    if (100 * count >= kinds[0].second) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool draws(const std::string& name) {
  return name == "top_k" || name == "top_p" || name == "min_p" || name == "typical_p" || name == "seed";
}

}  // namespace

SettingSources setting_sources(const Command& command, const std::string& otherwise) {
  SettingSources sources{otherwise, {}};
  for (const std::string& option : command.given_options())
    if (option.starts_with("--")) sources.given[text::setting_name(option)] = "the command line";
  return sources;
}

std::string sampling_text(const text::GenerateOptions& options, const SettingSources& sources) {
  std::vector<std::pair<std::string, std::vector<std::string>>>
      groups;  // by source, in the order of the settings
  for (const text::SamplingSetting& setting : text::sampling_settings(options)) {
    const bool is_temperature = setting.name == "temperature";
    if (options.temperature == 0 ? draws(setting.name) : setting.is_off && !is_temperature) continue;
    const auto given = sources.given.find(setting.name);
    const bool is_untouched_seed = setting.name == "seed" && given == sources.given.end();
    const std::string& source = given != sources.given.end() ? given->second : sources.otherwise;
    if (setting.is_off && !is_temperature) continue;
    auto group = std::ranges::find(groups, source, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {source, {}});
    if (is_untouched_seed) continue;
    group->second.push_back(is_temperature && options.temperature == 0
                                ? "always the likeliest token (temperature 0)"
                                : setting.name + " " + setting.text);
  }
  std::vector<std::string> texts;
  for (const auto& [source, settings] : groups)
    if (!settings.empty()) texts.push_back(fmt::format("{} ({})", fmt::join(settings, ", "), source));
  return printable(fmt::format("{}", fmt::join(texts, "; ")));
}

std::string model_text(const Model& model, const std::string& file) {
  double parameters = 0;
  for (const State& state : model.states())
    if (state.role == StateRole::kParameter) parameters += static_cast<double>(state.type.numel());
  const auto architecture = model.metadata.find("architecture");
  return printable(fmt::format("{}, {} parameters in {} ({})",
                               architecture == model.metadata.end() ? "a model" : architecture->second,
                               human_count(parameters), kept_as(model), file));
}

std::string context_text(int64_t positions, int64_t longest) {
  if (longest <= positions) return fmt::format("{} tokens", positions);
  return fmt::format("{} tokens, and up to {} as the conversation grows", positions, longest);
}

}  // namespace genesis::tools
