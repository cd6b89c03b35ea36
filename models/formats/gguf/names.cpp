#include "models/formats/gguf/names.h"

#include <algorithm>
#include <map>

namespace genesis::models::gguf {
namespace {

using Names = std::map<std::string, std::string>;

std::string found(const Names& names, const std::string& layer, const std::string& kind) {
  if (const auto whole = names.find(layer + kind); whole != names.end()) return whole->second;
  const auto at = names.find(layer);
  return at == names.end() ? "" : at->second + kind;
}

bool ends_with_one_of(const std::string& name, const std::vector<std::string>& ends) {
  return std::ranges::any_of(ends, [&](const std::string& end) { return name.ends_with(end); });
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

// A tensor of a block may have neither kind: ssm_a, ssm_d.
std::string name_in_zoo(const std::string& name, const GgufForm& form) {
  const size_t last = name.rfind('.');
  if (last == std::string::npos) return "";
  const std::string layer = name.substr(0, last), kind = name.substr(last);
  const bool has_kind = kind == ".weight" || kind == ".bias";
  if (!name.starts_with("blk.")) return has_kind ? found(form.outside, layer, kind) : "";
  const size_t dot = name.find('.', 4);
  const std::string block = name.substr(4, dot == std::string::npos ? dot : dot - 4);
  if (dot == std::string::npos || !is_number(block)) return "";
  const std::string inside = !has_kind     ? found(form.inside, name.substr(dot + 1), "")
                             : last == dot ? ""
                                           : found(form.inside, layer.substr(dot + 1), kind);
  return inside.empty() ? "" : form.blocks + block + "." + inside;
}

bool has_rows_in_pairs(const std::string& name, const GgufForm& form) {
  return ends_with_one_of(name, form.rows_in_pairs);
}

bool is_from_one(const std::string& name, const GgufForm& form) {
  return ends_with_one_of(name, form.from_one);
}

}  // namespace genesis::models::gguf
