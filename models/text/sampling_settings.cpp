#include "models/text/sampling_settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "schema/graph/near_names.h"
#include "schema/messages/shortened.h"

namespace genesis::text {

std::string setting_name(const std::string& flag) {
  std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<SamplingSetting> sampling_settings(const GenerateOptions& options) {
  std::vector<SamplingSetting> settings;
  visit_sampling([&](const char* name, auto field, auto, const auto&, auto off, const char*) {
    const auto value = options.*field;
    settings.push_back({name, fmt::format("{}", value), value == static_cast<decltype(value)>(off)});
  });
  return settings;
}

void set_sampling(GenerateOptions& options, const std::string& name, const std::string& value) {
  const std::string wanted = setting_name(name);
  bool is_set = false;
  std::vector<std::string> known;
  const auto try_setting = [&](const char* row, auto field, auto, const auto& range, auto, const char*) {
    known.emplace_back(row);
    if (wanted != row) return;
    using Value = std::decay_t<decltype(options.*field)>;
    options.*field = number_or_fail<Value>(wanted + " " + value, value, range);
    is_set = true;
  };
  visit_sampling(try_setting);
  try_setting("max_tokens", &GenerateOptions::max_tokens, 0, at_least<int64_t>(1), 0, "");
  if (!is_set)
    fail("there is no setting {}{}; there are: {}", shortened(name), did_you_mean(wanted, known),
         fmt::join(known, ", "));
}

}  // namespace genesis::text
