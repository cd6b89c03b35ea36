#include "passes/training/muon.h"

#include <algorithm>
#include <cmath>

#include "passes/core/match.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/index.h"

namespace genesis::passes {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

// Multiplies with the smaller Gram matrix: X X^T for a wide X, X^T X for a tall one.
Value orthogonalized(Value update, const optim::Muon& muon, DType products) {
  const bool tall = update.dim(0).value() > update.dim(1).value();
  Value x = cast(update / maximum(global_norm({update}), muon.eps), products);
  for (int64_t i = 0; i < muon.ns_steps; ++i) {
    const Value gram = tall ? matmul(x, x, true, false) : matmul(x, x, false, true);
    const Value factor = matmul(gram * kC, gram, false, false, gram * kB);
    x = tall ? matmul(x, factor, false, false, x * kA) : matmul(factor, x, false, false, x * kA);
  }
  return cast(x, DType::f32);
}

double adjustment(const optim::Muon& muon, const Shape& shape) {
  const double rows = static_cast<double>(shape[0].value()), columns = static_cast<double>(shape[1].value());
  if (muon.adjust_lr == optim::MuonAdjustment::kMatchRmsAdamw)
    return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// Returns the state that the value is or is cast from; -1 if there is none.
int32_t state_behind(const Graph& graph, ValueId id) {
  if (const auto widening = match<ops::Cast>(graph, id)) return state_behind(graph, widening.input(0));
  const ValueInfo& value = graph.value(id);
  return value.kind == ValueKind::kState ? value.index : -1;
}

template <class... Ops>
std::set<int32_t> states_read_by(const Graph& graph) {
  std::set<int32_t> states;
  for (const Node& node : graph.nodes())
    if (is<Ops...>(node))
      for (const ValueId input : node.inputs) states.insert(state_behind(graph, input));
  states.erase(-1);
  return states;
}

}  // namespace

MuonResult muon_update(Value parameter, Value gradient, Value momentum, Value lr, const optim::Muon& muon,
                       double weight_decay, DType products, Value scale) {
  if (parameter.rank() != 2)
    fail("Muon is for matrices, not for {}: give this parameter to AdamW by a group with optimizer=adamw",
         parameter.type().to_string());
  Value g = cast(gradient, DType::f32);
  if (scale) g = g * scale;
  const Value m = momentum + (g - momentum) * (1 - muon.momentum);
  const Value u = muon.nesterov ? g + (m - g) * muon.momentum : m;
  const Value x = orthogonalized(u, muon, products);
  const Value shrunk = cast(parameter, DType::f32) * (1.0 - lr * weight_decay);
  const Value next = shrunk - x * (lr * adjustment(muon, parameter.shape()));
  return {cast(next, parameter.dtype()), m};
}

std::set<int32_t> tables_and_heads(const Graph& loss) {
  return states_read_by<ops::Embedding, ops::LinearCrossEntropy>(loss);
}

std::set<int32_t> tables(const Graph& loss) { return states_read_by<ops::Embedding>(loss); }

}  // namespace genesis::passes
