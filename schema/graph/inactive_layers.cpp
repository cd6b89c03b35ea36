#include "schema/graph/inactive_layers.h"

namespace genesis {
namespace {

std::string key_of(const std::string& entry) { return "inactive_layer." + entry; }

}  // namespace

void note_inactive_layer(Graph& graph, const std::string& layer) {
  graph.model().metadata.emplace(key_of(graph.name()), layer);
}

std::string inactive_layer(const Model& model, const std::string& entry) {
  const auto at = model.metadata.find(key_of(entry));
  return at == model.metadata.end() ? "" : at->second;
}

void forget_inactive_layers(Model& model, const std::string& entry) { model.metadata.erase(key_of(entry)); }

}  // namespace genesis
