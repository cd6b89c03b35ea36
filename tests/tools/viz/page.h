// The data of a visualizer's page, as tests read it: out of the HTML as a browser does, and names and columns decoded as
// tools/viz/page/data.d.ts says, from nothing but that.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace genesis::testing {

// What stands in the page's data element, inflated.
std::string data_of_page(const std::string& html);

struct PageReader {
  explicit PageReader(nlohmann::json page);

  // A column of differences as numbers.
  static std::vector<int64_t> undo_deltas(const nlohmann::json& column);
  const std::string& path(int64_t index) const { return paths.at(static_cast<size_t>(index)); }
  std::string text(const nlohmann::json& index) const { return data["strings"].at(index.get<size_t>()); }
  const nlohmann::json& entry(const std::string& name, size_t model = 0) const;
  // Names of the graph's nodes, in order.
  std::vector<std::string> node_names(const nlohmann::json& graph) const;
  // By node: the values it reads, as data.d.ts numbers them.
  static std::vector<std::vector<int64_t>> node_inputs(const nlohmann::json& graph);

  nlohmann::json data;
  std::vector<std::string> paths;  // joined
};

}  // namespace genesis::testing
