#include "models/formats/pt2/sharing.h"

#include <set>
#include <string_view>

namespace genesis::models::pt2 {
namespace {

// "torch.ops.aten.view.default" is of the kind "view".
std::string_view kind_of(std::string_view target) {
  target = target.substr(0, target.rfind('.'));
  return target.substr(target.rfind('.') + 1);
}

bool makes_views(std::string_view target) {
  static const std::set<std::string_view> kViews = {
      "alias",   "chunk",     "contiguous",     "detach",           "expand",    "expand_as",
      "flatten", "movedim",   "narrow",         "numpy_T",          "permute",   "reshape",
      "select",  "slice",     "split",          "split_with_sizes", "squeeze",   "t",
      "to",      "transpose", "type_as",        "unbind",           "unflatten", "unsqueeze",
      "view",    "dropout",   "feature_dropout"};
  return kViews.contains(kind_of(target));
}

}  // namespace

void Sharing::note_call(const std::string& target, const nlohmann::json& node) {
  if (!makes_views(target) || node.at("inputs").empty()) return;
  const nlohmann::json& first = node.at("inputs").at(0).at("arg");
  if (!first.contains("as_tensor")) return;
  const std::string of = owner(first.at("as_tensor").at("name").get<std::string>());
  for (const nlohmann::json& output : node.at("outputs")) {
    if (output.contains("as_tensor"))
      owners_[output.at("as_tensor").at("name").get<std::string>()] = of, ++views_[of];
    if (!output.contains("as_tensors")) continue;
    for (const nlohmann::json& item : output.at("as_tensors"))
      owners_[item.at("name").get<std::string>()] = of, ++views_[of];
  }
}

}  // namespace genesis::models::pt2
