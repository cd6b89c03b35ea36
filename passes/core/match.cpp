#include "passes/core/match.h"

#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {

std::optional<double> uniform_value(const Graph& graph, ValueId value) {
  const ValueInfo& info = graph.value(value);
  if (info.kind == ValueKind::kConstant) {
    const Tensor& tensor = graph.model().tensors()[static_cast<size_t>(info.index)].tensor;
    return tensor.numel() == 1 ? std::optional(tensor.item<double>()) : std::nullopt;
  }
  const Node* node = producer(graph, value);
  if (node == nullptr) return std::nullopt;
  if (const auto full = match<ops::Full>(*node)) return full->value.as_double();
  if (is<ops::Reshape, ops::Expand>(*node)) return uniform_value(graph, node->inputs[0]);
  return std::nullopt;
}

}  // namespace genesis::passes
