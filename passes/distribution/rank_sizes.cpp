#include "passes/distribution/rank_sizes.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/ops/collective/collective.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

bool shares_batch(const Graph& entry) {
  return std::any_of(entry.nodes().begin(), entry.nodes().end(),
                     [](const Node& node) { return axis_of(*node.op, node.attributes) == kDataAxis; });
}

}  // namespace

int64_t batch_parts(const Graph& entry, const Mesh& mesh) {
  const int64_t ranks = mesh.size(kDataAxis);
  return ranks > 1 && shares_batch(entry) ? ranks : 1;
}

Bindings sizes_of_rank(const Graph& entry, Bindings sizes, const Mesh& mesh) {
  const int64_t ranks = batch_parts(entry, mesh);
  if (ranks == 1 || entry.inputs().empty()) return sizes;
  const Shape& shape = entry.type(entry.inputs()[0]).shape;
  const std::string& input = entry.value(entry.inputs()[0]).name;
  std::vector<std::string> symbols;
  if (shape.rank() > 0) shape[0].collect_symbols(symbols);
  if (symbols.size() != 1)
    fail(
        "{} ranks along 'data' share the batch, and the first dimension of input '{}' ({}) is no symbol: "
        "build the model "
        "with a batch that is not fixed",
        ranks, input, shape.to_string());
  const auto size = sizes.find(symbols[0]);
  if (size == sizes.end()) return sizes;
  if (size->second % ranks != 0)
    fail("{}={} cannot be shared by {} ranks along 'data': take {}", symbols[0], size->second, ranks,
         sizes_near(size->second, ranks));
  size->second /= ranks;
  return sizes;
}

std::string sizes_near(int64_t size, int64_t ranks) {
  const int64_t parts = size / ranks;
  return (parts > 0 ? std::to_string(parts * ranks) + " or " : "") + std::to_string((parts + 1) * ranks);
}

}  // namespace genesis::passes
