#include "models/formats/pt2/output_names.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/file/json_text.h"

namespace genesis::models::pt2 {
namespace {

using nlohmann::json;

// The keys of a dictionary, or the fields of a class that stands for one; none for a tuple.
std::vector<std::string> keys_of(const json& spec, size_t children) {
  const json& context = spec.at("context");
  if (!context.is_string()) return {};
  const json keys = try_parse_json_text(context.get<std::string>());
  std::vector<std::string> names;
  if (!keys.is_array() || keys.size() != children) return {};
  for (const json& key : keys) {
    if (!key.is_string()) return {};
    names.push_back(key.get<std::string>());
  }
  return names;
}

void collect(const json& spec, const std::string& path, std::vector<std::string>& names) {
  if (spec.at("type").is_null()) return void(names.push_back(path));
  const json& children = spec.at("children_spec");
  const std::vector<std::string> keys = keys_of(spec, children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    const std::string name = keys.empty() ? std::to_string(i) : keys[i];
    collect(children[i], path.empty() ? name : path + "." + name, names);
  }
}

// Returns nothing if the description is missing or says something else.
std::vector<std::string> described_names(const json& program) try {
  const json& calls = program.at("graph_module").at("module_call_graph");
  const json& signature = calls.at(0).at("signature");
  const json spec = try_parse_json_text(signature.at("out_spec").get<std::string>());
  std::vector<std::string> names;
  if (spec.is_array() && spec.size() == 2) collect(spec[1], "", names);
  return names;
} catch (const json::exception&) {
  return {};
}

bool begins_with_digit(const std::string& name) { return !name.empty() && name[0] >= '0' && name[0] <= '9'; }

}  // namespace

std::vector<std::string> output_names(const json& program, size_t count) {
  std::vector<std::string> names = described_names(program);
  if (names.size() != count) {
    names.clear();
    for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  }
  for (std::string& name : names) {
    if (name.empty() || (count == 1 && name == "0")) name = "output";
    if (begins_with_digit(name)) name = "output." + name;
  }
  return names;
}

}  // namespace genesis::models::pt2
