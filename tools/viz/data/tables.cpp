#include "tools/viz/data/tables.h"
#include "schema/core/parse_number.h"

namespace genesis::viz {
namespace {

template <class Key>
int32_t next_index(const std::vector<Key>& rows) {
  return static_cast<int32_t>(rows.size());
}

Json dim_json(const Dim& dim) {
  const auto size = dim.constant();
  return size ? Json(*size) : Json(dim.to_string());
}

// Shortens attributes. They are only shown and never read back, and a file may have a list of a million numbers.
std::string shown(std::string text) {
  constexpr size_t kMaxBytes = 20000;
  if (text.size() <= kMaxBytes) return text;
  size_t end = kMaxBytes;  // moved back to the start of a character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + fmt::format("... ({} bytes in all)", text.size());
}

}  // namespace

int32_t Tables::string(std::string_view text) {
  const auto [at, is_new] = string_index_.try_emplace(std::string(text), next_index(strings_));
  if (is_new) strings_.emplace_back(text);
  return at->second;
}

int32_t Tables::path(std::string_view dotted) {
  if (dotted.empty()) return -1;
  const auto known = path_index_.find(std::string(dotted));
  if (known != path_index_.end()) return known->second;
  int32_t at = -1;
  for (size_t begin = 0; begin <= dotted.size();) {
    const size_t end = std::min(dotted.find('.', begin), dotted.size());
    at = child(at, dotted.substr(begin, end - begin));
    begin = end + 1;
  }
  path_index_[std::string(dotted)] = at;
  return at;
}

int32_t Tables::path(const std::vector<std::string>& parts) {
  int32_t at = -1;
  for (const std::string& part : parts) at = child(at, part);
  return at;
}

int32_t Tables::child(int32_t parent, std::string_view segment) {
  const Path path{parent, string(segment)};
  const auto [child, is_new] = path_children_.try_emplace(path, next_index(paths_));
  if (is_new) paths_.push_back(path);
  return child->second;
}

// Adds a row unless it is known. One map serves all tables, since each key begins with the name of its table.
int32_t Tables::add(Json& table, const std::string& key, const Json& row) {
  const auto [at, is_new] = rows_.try_emplace(key, static_cast<int32_t>(table.size()));
  if (is_new) table.push_back(row);
  return at->second;
}

int32_t Tables::type(const TensorType& type) {
  const std::string key = "type " + type.to_string();
  if (const auto known = rows_.find(key); known != rows_.end()) return known->second;
  Json row{{"dtype", name_of(type.dtype)}, {"shape", Json::array()}, {"sizes", nullptr}, {"bytes", nullptr}};
  for (const Dim& dim : type.shape) row["shape"].push_back(dim_json(dim));
  try {
    const TensorType bound{type.dtype, type.shape.substitute(sizes_)};
    if (bound.shape.is_constant()) row["bytes"] = bound.bytes(), row["sizes"] = bound.shape.sizes();
  } catch (const Error&) {  // the size does not fit in 64 bits
  }
  return add(types_, key, row);
}

int32_t Tables::other_format_type(const std::string& dtype, const std::vector<std::string>& shape,
                                  int64_t bits) {
  Json row{{"dtype", dtype}, {"shape", Json::array()}, {"sizes", Json::array()}, {"bytes", nullptr}};
  double elements = 1;
  for (const std::string& dim : shape) {
    const auto size = parse_number<int64_t>(dim);
    row["shape"].push_back(size ? Json(*size) : Json(dim));
    if (size && row["sizes"].is_array())
      row["sizes"].push_back(*size), elements *= static_cast<double>(*size);
    if (!size) row["sizes"] = nullptr;
  }
  if (row["sizes"].is_array() && bits > 0) row["bytes"] = std::ceil(elements * static_cast<double>(bits) / 8);
  return add(types_, "type " + row.dump(-1, ' ', false, Json::error_handler_t::replace), row);
}

int32_t Tables::attributes(const Attributes& attributes) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : attributes) texts.emplace_back(name, to_string(value));
  return this->attributes(texts);
}

int32_t Tables::attributes(const std::vector<std::pair<std::string, std::string>>& attributes) {
  Json row = Json::array();
  for (const auto& [name, value] : attributes) row.push_back({name, shown(value)});
  return add(attributes_, "attributes " + row.dump(-1, ' ', false, Json::error_handler_t::replace), row);
}

int32_t Tables::cost(const Cost& cost) {
  const Json row{{"flops", cost.flops}, {"bytes", cost.bytes}, {"at_most", cost.depends_on_data}};
  return add(costs_, "cost " + row.dump(), row);
}

int32_t Tables::kernel(const KernelChoice& choice) {
  Json row{{"name", choice.name}, {"declined", Json::array()}};
  for (const auto& [name, reason] : choice.declined)
    row["declined"].push_back({{"name", name}, {"reason", reason}});
  return add(kernels_, "kernel " + row.dump(-1, ' ', false, Json::error_handler_t::replace), row);
}

Json Tables::paths_json() const {
  std::vector<int32_t> parents, segments;
  for (size_t i = 0; i < paths_.size(); ++i) {
    parents.push_back(paths_[i].parent < 0 ? 0 : static_cast<int32_t>(i) - paths_[i].parent);
    segments.push_back(paths_[i].segment);
  }
  return {{"parent", parents}, {"segment", segments}};
}

void Tables::write(Json& data) const {
  data["strings"] = strings_;
  data["paths"] = paths_json();
  data["types"] = types_;
  data["attributes"] = attributes_;
  data["costs"] = costs_;
  data["kernels"] = kernels_;
}

}  // namespace genesis::viz
