// Finds the products of experts: find_experts() of expert_patterns.h.
#include <cmath>

#include "passes/fusion/expert_patterns.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/index.h"

namespace genesis::passes {
namespace {

// A product of experts, with the state of their biases if it has one.
struct ExpertProduct {
  Matched<ops::GroupedMatmul> product;
  ValueId biases;
  std::vector<const Node*> nodes;

  explicit operator bool() const { return static_cast<bool>(product) && product->transpose_weights; }
  ValueId offsets() const { return product.node->inputs.back(); }
};

// Returns true if `sorted` has the expert of each pair whose experts begin at `offsets`: both are results of one node.
bool is_expert_of_pair(const Graph& graph, ValueId sorted, ValueId offsets) {
  const Node *node = producer(graph, sorted), *other = producer(graph, offsets);
  if (node == nullptr || node != other) return false;
  const int first = is<ops::SortGroups>(*node) ? 0 : is<ops::Route>(*node) ? 1 : -1;
  return first >= 0 && graph.value(sorted).index == first + 1 && graph.value(offsets).index == first + 3;
}

// y = x W^T, or y + biases, each row of which index_select repeats for the pairs of its expert.
ExpertProduct find_product(const Graph& graph, const Uses& uses, ValueId value) {
  if (const auto product = match_reshaped<ops::GroupedMatmul>(graph, uses, value))
    return {product, {}, {product.node}};
  const auto sum = match_reshaped<ops::Add>(graph, uses, value);
  if (!sum) return {};
  for (const auto& [y, own] : either_way(*sum.node)) {
    const auto product = match_reshaped<ops::GroupedMatmul>(graph, uses, y);
    const auto biases = match<ops::IndexSelect>(graph, behind_reshapes(graph, own));
    if (!product || !biases || biases->axis != 0 || !(graph.type(y) == graph.type(own)) ||
        !(last_size(graph.type(biases.input(0))) == last_size(graph.type(y))) ||
        !(last_size(graph.type(product.node->outputs[0])) == last_size(graph.type(y))) ||
        !is_expert_of_pair(graph, biases.input(1), product.node->inputs.back()))
      continue;
    return {product, biases.input(0), {product.node, sum.node}};
  }
  return {};
}

// The gated activation between the products of experts.
struct GatedProducts {
  ExpertProduct gate, up;
  std::vector<const Node*> nodes;
};

// swiglu(gate, up)
std::optional<GatedProducts> find_swiglu(const Graph& graph, const Uses& uses, ValueId value,
                                         ops::Experts& op) {
  const auto gated = match_reshaped<ops::Swiglu>(graph, uses, value);
  if (!gated || gated.num_inputs() != 2) return std::nullopt;
  op.activation = ExpertActivation::kSwiglu;
  return GatedProducts{
      find_product(graph, uses, gated.input(0)), find_product(graph, uses, gated.input(1)), {gated.node}};
}

// Matches x op a number that all elements have, of the same type as x; sets both.
template <class Op>
Matched<Op> match_with_number(const Graph& graph, const Uses& uses, ValueId value, ValueId& x,
                              double& number) {
  const auto node = match_sole<Op>(graph, uses, value);
  if (!node) return {};
  for (const auto& [operand, other] : either_way(*node.node))
    if (const auto found = uniform_value(graph, other); found && graph.type(operand) == graph.type(value)) {
      x = operand, number = *found;
      return node;
    }
  return {};
}

// h sigmoid(slope h), h = minimum(gate, limit): sets slope and limit, which ops::Experts takes, and returns the gate.
std::optional<ValueId> find_clamped_gate(const Graph& graph, const Uses& uses, ValueId value,
                                         ops::Experts& op) {
  const auto product = match_sole<ops::Mul>(graph, uses, value);
  if (!product) return std::nullopt;
  for (const auto& [h, weight] : either_way(*product.node)) {
    const auto sigmoid = match_sole<ops::Sigmoid>(graph, uses, weight);
    ValueId scaled, gate;
    if (!sigmoid || !match_with_number<ops::Mul>(graph, uses, sigmoid.input(0), scaled, op.slope) ||
        !std::isfinite(op.slope) || scaled != h || uses.count(h) != 2)
      continue;
    const auto least = match<ops::Minimum>(graph, h);
    if (!least) continue;
    for (const auto& [operand, other] : either_way(*least.node))
      if (const auto limit = uniform_value(graph, other);
          limit && *limit > 0 && graph.type(operand) == graph.type(h)) {
        op.limit = *limit;
        return operand;
      }
  }
  return std::nullopt;
}

// clamp(up, -limit, limit) + 1: returns up.
std::optional<ValueId> find_clamped_up(const Graph& graph, const Uses& uses, ValueId value,
                                       const ops::Experts& op) {
  ValueId clamped;
  double one = 0;
  if (!match_with_number<ops::Add>(graph, uses, value, clamped, one) || one != 1) return std::nullopt;
  const auto clamp = match_sole<ops::Clamp>(graph, uses, clamped);
  if (!clamp || clamp->max != op.limit || clamp->min != -op.limit) return std::nullopt;
  return clamp.input(0);
}

// The activation of gpt-oss: see ExpertActivation.
std::optional<GatedProducts> find_clamped_swiglu(const Graph& graph, const Uses& uses, ValueId value,
                                                 ops::Experts& op) {
  const auto product = match_reshaped<ops::Mul>(graph, uses, value);
  if (!product) return std::nullopt;
  for (const auto& [left, right] : either_way(*product.node)) {
    const auto gate = find_clamped_gate(graph, uses, left, op);
    const auto up = gate ? find_clamped_up(graph, uses, right, op) : std::nullopt;
    if (!up) continue;
    op.activation = ExpertActivation::kClampedSwiglu;
    return GatedProducts{find_product(graph, uses, *gate), find_product(graph, uses, *up), {product.node}};
  }
  return std::nullopt;
}

using FindActivation = std::optional<GatedProducts> (*)(const Graph&, const Uses&, ValueId, ops::Experts&);
constexpr FindActivation kActivations[] = {find_swiglu, find_clamped_swiglu};

// Finds the activation and the products with gate and up that it reads.
std::optional<GatedProducts> find_gated(const Graph& graph, const Uses& uses, ValueId value,
                                        ops::Experts& op) {
  for (const FindActivation find : kActivations) {
    auto gated = find(graph, uses, value, op);
    if (!gated) continue;
    const auto &gate = gated->gate, &up = gated->up;
    const bool fits = gate && up && gate.product->weight_format == up.product->weight_format &&
                      gate.product.input(0) == up.product.input(0) && gate.offsets() == up.offsets();
    return fits ? gated : std::nullopt;
  }
  return std::nullopt;
}

// Appends biases, then scales of quantized weights, as ops::Experts has them. Returns false if only some products have biases.
bool add_biases_and_scales(const std::vector<const ExpertProduct*>& products, ExpertNodes& found) {
  const auto has_biases = [](const ExpertProduct* p) { return p->biases.index >= 0; };
  found.op.has_biases = has_biases(products[0]);
  for (const ExpertProduct* p : products) {
    if (has_biases(p) != found.op.has_biases) return false;
    if (found.op.has_biases) found.inputs.push_back(p->biases);
  }
  for (const ExpertProduct* p : products)
    if (p->product->is_quantized()) found.inputs.push_back(p->product.input(2));
  return true;
}

// Returns true if the sizes are those of experts, between which reshapes may have made others: `x` has rows, each of which `own`
// repeats for its pairs, and `results` are the rows of `down`, one for each pair.
bool sizes_fit(const Graph& graph, const Matched<ops::IndexSelect>& rows, ValueId own, const Node& down,
               const Matched<ops::Embedding>& chosen, const Node& sum) {
  const TensorType &x = graph.type(rows.input(0)), &places = graph.type(chosen.input(0));
  const Dim pairs = graph.type(rows.input(1)).shape.numel();
  if (x.shape.rank() < 2 || places.shape.rank() < 1) return false;
  for (int axis = 1; axis + 1 < x.shape.rank(); ++axis)
    if (!(x.shape[axis] == Dim(1))) return false;
  const Dim hidden = last_size(graph.type(down.outputs[0]));
  return last_size(graph.type(own)) == last_size(x) && leading_size(graph.type(own)) == pairs &&
         places.shape.numel() == pairs && graph.type(chosen.input(1)).shape == Shape{pairs, hidden} &&
         graph.type(sum.outputs[0]).shape.numel() == leading_size(places) * hidden;
}

}  // namespace

std::optional<ExpertNodes> find_experts(const Graph& graph, const Uses& uses, const Node& sum) {
  const auto product = match<ops::Matmul>(sum);
  if (!product || !product->is_plain() || product->transpose_a || product->transpose_b ||
      product.num_inputs() != 2)
    return std::nullopt;
  const auto chosen = match_sole<ops::Embedding>(graph, uses, product.input(1));
  if (!chosen || chosen->part.is_part()) return std::nullopt;
  const ExpertProduct down = find_product(graph, uses, chosen.input(1));
  ExpertNodes found;
  const auto gated = down ? find_gated(graph, uses, down.product.input(0), found.op) : std::nullopt;
  if (!gated || gated->gate.offsets() != down.offsets()) return std::nullopt;
  const auto &gate = gated->gate.product, &up = gated->up.product;
  const auto rows = match<ops::IndexSelect>(graph, behind_reshapes(graph, gate.input(0)));
  const ValueId factors = behind_reshapes(graph, product.input(0));
  const auto narrowed = match<ops::Cast>(graph, factors);
  if (!rows || rows->axis != 0 || !sizes_fit(graph, rows, gate.input(0), *down.product.node, chosen, sum))
    return std::nullopt;
  found.op.format = gate->weight_format;
  found.op.down_format = down.product->weight_format;
  found.inputs = {rows.input(0),   gate.input(1),
                  up.input(1),     down.product.input(1),
                  rows.input(1),   down.offsets(),
                  chosen.input(0), narrowed ? behind_reshapes(graph, narrowed.input(0)) : factors};
  if (!add_biases_and_scales({&gated->gate, &gated->up, &down}, found)) return std::nullopt;
  for (const auto* nodes : {&gated->gate.nodes, &gated->up.nodes, &gated->nodes, &down.nodes})
    found.nodes.insert(found.nodes.end(), nodes->begin(), nodes->end());
  found.nodes.push_back(&sum);
  return found;
}

}  // namespace genesis::passes
