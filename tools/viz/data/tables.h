// Tables of items that are stored once in a page's data however many nodes use them: texts, dotted names, types, sets
// of attributes, costs and kernel choices. All other data refers to them by index. The fields are those of
// tools/viz/page/data.d.ts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/graph/cost.h"
#include "schema/graph/target.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

class Tables {
 public:
  // `sizes`: known sizes of symbols in types.
  explicit Tables(Bindings sizes) : sizes_(std::move(sizes)) {}

  int32_t string(std::string_view text);
  int32_t path(std::string_view dotted);  // -1: ""
  // The same for a name whose parts may contain dots.
  int32_t path(const std::vector<std::string>& parts);
  int32_t type(const TensorType& type);
  // Adds a type from a file of another program. `dtype` is its name there. A dimension that is not a number has no
  // size.
  int32_t other_format_type(const std::string& dtype, const std::vector<std::string>& shape, int64_t bits);
  Json bytes_of_type(int32_t type) const {
    return types_[static_cast<size_t>(type)]["bytes"];
  }  // null: unknown
  int32_t attributes(const Attributes& attributes);
  int32_t attributes(const std::vector<std::pair<std::string, std::string>>& attributes);
  int32_t cost(const Cost& cost);
  int32_t kernel(const KernelChoice& choice);

  // Adds all tables to the page's data.
  void write(Json& data) const;

 private:
  struct Path {
    int32_t parent, segment;
    auto operator<=>(const Path&) const = default;
  };
  int32_t child(int32_t parent, std::string_view segment);
  int32_t add(Json& table, const std::string& key, const Json& row);
  Json paths_json() const;

  Bindings sizes_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, int32_t> string_index_, path_index_;
  std::vector<Path> paths_;
  std::map<Path, int32_t> path_children_;
  // row index by the row's content
  std::unordered_map<std::string, int32_t> rows_;
  Json types_ = Json::array(), attributes_ = Json::array(), costs_ = Json::array(), kernels_ = Json::array();
};

}  // namespace genesis::viz
