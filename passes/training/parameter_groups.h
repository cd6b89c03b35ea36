// Parameter groups: optimizer settings for the parameters whose names match patterns, like torch's param_groups. They are part
// of TrainOptions. A group is written as
//
//   *.bias,*norm*: lr=0.5x, weight_decay=0         of `genesis-opt --group`
//   group={*.bias,*norm*:lr=0.5x,weight_decay=0}   among the options of --train
//
// In patterns * stands for any text and ? for any character. Settings: lr=FACTORx (a factor of the optimizer's lr),
// weight_decay=NUMBER, freeze, and with Muon optimizer=muon or optimizer=adamw. A parameter belongs to the first group with a
// matching pattern.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace genesis::passes {

// The optimizer of a group's parameters if the training's optimizer is Muon.
enum class GroupOptimizer : uint8_t { kDefault, kMuon, kAdamW };

struct ParameterGroup {
  std::vector<std::string> parameters;      // patterns
  double lr_factor = 1;                     // factor of the scheduled rate
  std::optional<double> weight_decay = {};  // replaces the optimizer's; overrides no_decay
  bool freeze = false;                      // not trained at all
  GroupOptimizer optimizer = GroupOptimizer::kDefault;
};

// Throws an Error that quotes the text and says what is expected.
ParameterGroup parse_group(std::string_view text);
std::string to_string(
    const ParameterGroup& group);  // "*.bias,*norm*:lr=0.5x,weight_decay=0", as parse_group reads it

// Throws an Error for a group without patterns or settings, or with numbers out of range.
void check_group(const ParameterGroup& group);
// Throws an Error that names a pattern which matches none of `parameters`, and similar names.
void check_groups_match(const std::vector<ParameterGroup>& groups,
                        const std::vector<std::string>& parameters);

// Returns the first group with a pattern that matches the parameter; null if there is none.
const ParameterGroup* group_of(const std::vector<ParameterGroup>& groups, std::string_view parameter);

// Splits `text` at separators outside of braces and removes the blanks around each item.
std::vector<std::string> split_list(std::string_view text, char separator);

}  // namespace genesis::passes
