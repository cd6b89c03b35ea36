// Reads the data of a visualizer's page as a browser does: takes it out of the HTML, and decodes names and columns
// only by tools/viz/page/data.d.ts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace genesis::testing {

// Returns the content of the page's data element, inflated.
std::string data_of_page(const std::string& html);

struct PageReader {
  explicit PageReader(nlohmann::json page);

  // Converts a column of differences to numbers.
  static std::vector<int64_t> undo_deltas(const nlohmann::json& column);
  const std::string& path(int64_t index) const { return paths.at(static_cast<size_t>(index)); }
  std::string text(const nlohmann::json& index) const { return data["strings"].at(index.get<size_t>()); }
  const nlohmann::json& entry(const std::string& name, size_t model = 0) const;
  // Returns the names of the graph's nodes, in order.
  std::vector<std::string> node_names(const nlohmann::json& graph) const;
  // Returns the values that each node reads, numbered as in data.d.ts.
  static std::vector<std::vector<int64_t>> node_inputs(const nlohmann::json& graph);

  nlohmann::json data;
  std::vector<std::string> paths;  // joined
};

}  // namespace genesis::testing
