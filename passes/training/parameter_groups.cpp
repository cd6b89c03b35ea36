#include "passes/training/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "passes/core/name_patterns.h"
#include "schema/core/error.h"
#include "schema/core/parse_number.h"
#include "schema/core/type_limits.h"
#include "schema/graph/near_names.h"

namespace genesis::passes {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

double number_of(std::string_view key, const std::string& text) {
  const std::optional<double> number = parse_number<double>(text);
  if (!number || !fits_f32(*number))
    fail("'{}' of a parameter group is '{}', expected a number that f32 can hold", key, text);
  return *number;
}

double factor_of(const std::string& text) {
  if (!text.ends_with('x'))
    fail("'lr' of a parameter group is '{}', expected a factor of the optimizer's lr, as in lr=0.5x", text);
  return number_of("lr", text.substr(0, text.size() - 1));
}

GroupOptimizer optimizer_of(const std::string& text) {
  if (text == "muon") return GroupOptimizer::kMuon;
  if (text == "adamw") return GroupOptimizer::kAdamW;
  fail("'optimizer' of a parameter group is '{}', expected muon or adamw", text);
}

void read_setting(ParameterGroup& group, const std::string& item) {
  const size_t equals = item.find('=');
  const std::string key(trimmed(std::string_view(item).substr(0, equals)));
  const std::string value(equals == std::string::npos ? ""
                                                      : trimmed(std::string_view(item).substr(equals + 1)));
  if (key == "freeze" && equals == std::string::npos)
    group.freeze = true;
  else if (key == "optimizer")
    group.optimizer = optimizer_of(value);
  else if (key == "lr")
    group.lr_factor = factor_of(value);
  else if (key == "weight_decay")
    group.weight_decay = number_of(key, value);
  else
    fail(
        "a parameter group has no setting '{}': expected lr=FACTORx, weight_decay=NUMBER, optimizer=NAME or "
        "freeze",
        item);
}

// Returns names that the pattern may have been meant to match: whole names, and their ends behind any dot.
std::string near_pattern(const std::string& pattern, const std::vector<std::string>& parameters) {
  std::vector<std::string> names;
  for (const std::string& name : parameters) {
    names.push_back(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      names.push_back(name.substr(dot + 1));
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  std::string plain = pattern;
  std::erase_if(plain, [](char c) { return c == '*' || c == '?'; });
  return near_names(std::string(plain.starts_with('.') ? plain.substr(1) : plain), names);
}

}  // namespace

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '{') - (text[i] == '}');
    if (text[i] != separator || depth > 0) continue;
    parts.emplace_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (begin < text.size()) parts.emplace_back(trimmed(text.substr(begin)));
  return parts;
}

ParameterGroup parse_group(std::string_view text) {
  return with_context(
      [&] {
        const size_t colon = text.find(':');
        if (colon == std::string_view::npos)
          fail("expected PATTERN,...: SETTING,... as in '*.bias,*norm*: lr=0.5x, weight_decay=0'");
        ParameterGroup group{.parameters = split_list(text.substr(0, colon), ',')};
        for (const std::string& item : split_list(text.substr(colon + 1), ',')) read_setting(group, item);
        check_group(group);
        return group;
      },
      [&] { return fmt::format("in the parameter group '{}'", trimmed(text)); });
}

std::string to_string(const ParameterGroup& group) {
  std::vector<std::string> settings;
  if (group.freeze) settings.push_back("freeze");
  if (group.lr_factor != 1) settings.push_back(fmt::format("lr={}x", group.lr_factor));
  if (group.weight_decay) settings.push_back(fmt::format("weight_decay={}", *group.weight_decay));
  if (group.optimizer != GroupOptimizer::kDefault)
    settings.push_back(group.optimizer == GroupOptimizer::kMuon ? "optimizer=muon" : "optimizer=adamw");
  return fmt::format("{}:{}", fmt::join(group.parameters, ","), fmt::join(settings, ","));
}

void check_group(const ParameterGroup& group) {
  if (group.parameters.empty()) fail("a parameter group names no parameters: give patterns before the ':'");
  for (const std::string& pattern : group.parameters)
    if (pattern.empty() || pattern.find_first_of(",:{}") != std::string::npos)
      fail("'{}' is no pattern of a parameter group: it has to have text without any of ,:{{}}", pattern);
  if (!(group.lr_factor >= 0))
    fail("the lr of a parameter group is {}x, expected 0 or more", group.lr_factor);
  if (group.weight_decay && !(*group.weight_decay >= 0))
    fail("the weight_decay of a parameter group is {}, expected 0 or more", *group.weight_decay);
  if (!group.freeze && group.lr_factor == 1 && !group.weight_decay &&
      group.optimizer == GroupOptimizer::kDefault)
    fail(
        "a parameter group without a setting does nothing: give lr=FACTORx, weight_decay=NUMBER, "
        "optimizer=NAME or freeze");
}

void check_groups_match(const std::vector<ParameterGroup>& groups,
                        const std::vector<std::string>& parameters) {
  for (const ParameterGroup& group : groups)
    for (const std::string& pattern : group.parameters) {
      const bool found = std::ranges::any_of(
          parameters, [&](const std::string& name) { return matches_any({pattern}, name); });
      if (found) continue;
      const std::string near = near_pattern(pattern, parameters);
      fail("the pattern '{}' of the parameter group '{}' names no parameter{}", pattern, to_string(group),
           near.empty() ? "; `genesis-run info FILE --states` lists them" : "; near it are: " + near);
    }
}

const ParameterGroup* group_of(const std::vector<ParameterGroup>& groups, std::string_view parameter) {
  const auto at = std::ranges::find_if(
      groups, [&](const ParameterGroup& group) { return matches_any(group.parameters, parameter); });
  return at == groups.end() ? nullptr : &*at;
}

}  // namespace genesis::passes
