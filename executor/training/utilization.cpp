#include "executor/training/utilization.h"

#include "executor/inputs.h"
#include "executor/inspector.h"
#include "passes/core/bind.h"
#include "schema/graph/cost_model.h"

namespace genesis {
namespace {

struct Products {
  double f32 = 0, low = 0;  // FLOPs
};

Products products_of(const Graph& graph) {
  Products products;
  for (const Node& node : graph.nodes()) {
    const bool low = multiplies_low_precision(graph.input_types(node));
    (low ? products.low : products.f32) += cost_of(graph, node).flops;
  }
  return products;
}

}  // namespace

Utilization::Utilization(Session& session, const std::string& entry, const NamedTensors& inputs) {
  const Graph& graph = session.model().entry(entry);
  const Products products = products_of(passes::bind(graph, bind_inputs(graph, inputs)));
  const DevicePeaks peaks = Inspector(session).measure_peaks();
  least_seconds_ = 1e-9 * (products.f32 / peaks.f32_gflops + products.low / peaks.low_gflops);
}

}  // namespace genesis
