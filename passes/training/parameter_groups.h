// Parameter groups: settings of the optimizer for the parameters that patterns name, as torch's param_groups have them.
// Part of TrainOptions. In text a group is
//
//   *.bias,*norm*: lr=0.5x, weight_decay=0         of `genesis-opt --group`
//   group={*.bias,*norm*:lr=0.5x,weight_decay=0}   among the options of --train
//
// with * for any text and ? for any character in the patterns. Settings: lr=FACTORx of the optimizer's, weight_decay=NUMBER,
// freeze, and with Muon optimizer=muon or optimizer=adamw. A parameter belongs to the first group that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace genesis::passes {

// Who updates a parameter where the optimizer is Muon.
enum class GroupOptimizer : uint8_t { kDefault, kMuon, kAdamW };

struct ParameterGroup {
  std::vector<std::string> parameters;      // patterns
  double lr_factor = 1;                     // of the scheduled rate
  std::optional<double> weight_decay = {};  // in place of the optimizer's; also stands above no_decay
  bool freeze = false;                      // not trained at all
  GroupOptimizer optimizer = GroupOptimizer::kDefault;
};

// Throws Error that quotes the text and says what is expected.
ParameterGroup parse_group(std::string_view text);
std::string to_string(
    const ParameterGroup& group);  // "*.bias,*norm*:lr=0.5x,weight_decay=0": parse_group reads it

// Throws Error for a group that nothing could belong to, or whose numbers no training can have.
void check_group(const ParameterGroup& group);
// Throws Error naming the pattern of a group that names none of `parameters`, and which come near.
void check_groups_match(const std::vector<ParameterGroup>& groups,
                        const std::vector<std::string>& parameters);

// The first group that names the parameter; null: none does.
const ParameterGroup* group_of(const std::vector<ParameterGroup>& groups, std::string_view parameter);

// The parts of `text` between separators outside of braces, blanks around them taken off.
std::vector<std::string> split_list(std::string_view text, char separator);

}  // namespace genesis::passes
