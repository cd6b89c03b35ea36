// Merges adapters: computes W + alpha / rank B A and restores the graphs from before add_lora().
#include <set>
#include <utility>

#include "passes/core/analysis.h"
#include "passes/core/extract.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/lora/lora.h"
#include "passes/training/evaluation.h"
#include "schema/core/parallel.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {
namespace {

bool is_state(const Graph& graph, ValueId id, std::string_view end) {
  const int32_t state = state_of(graph, id);
  return state >= 0 && graph.model().state(state).name.ends_with(end);
}

// Emits the products of `node` whose weights are A matrices, or all others, as one node, and stores their results in `values`.
void emit_part(Rewriter& rewriter, const Node& node, bool of_a, std::vector<Value>& values) {
  ops::Linear op = from_attributes<ops::Linear>(node.attributes);
  const std::vector<Value> inputs = rewriter.map(node.inputs);
  const size_t biases = op.has_bias(inputs.size()) ? op.first_bias() : 0;
  LinearOperands operands{.x = inputs[0], .weights = {}};
  if (op.has_norm()) operands.norm = inputs[1];
  std::vector<size_t> places;
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i) {
    if (is_state(rewriter.old(), node.inputs[op.first_weight() + i], kLoraA) != of_a) continue;
    operands.weights.push_back(inputs[op.first_weight() + i]);
    if (biases) operands.biases.push_back(inputs[biases + i]);
    places.push_back(i);
  }
  if (places.empty()) return;
  const std::vector<Value> part = linear(op, operands);
  for (size_t i = 0; i < places.size(); ++i) values[places[i]] = part[i];
}

// The sum of a convolution and its adapter becomes the convolution.
Replacement without_convolution(Rewriter& rewriter, const Node& node) {
  for (const auto& [base, adapter] : either_way(node))
    if (const auto up = match<ops::Convolution>(rewriter.old(), adapter))
      if (is_state(rewriter.old(), up.node->inputs[1], kLoraB)) return std::vector<Value>{rewriter.map(base)};
  return std::nullopt;
}

// Replaces the sum of a layer and its adapter by the layer. A node into which merge_linear merged products is split in two
// again; the one with the A matrices then has no readers.
Graph without_adapters(const Graph& graph) {
  return rewrite(graph, [](Rewriter& rewriter, const Node& node) -> Replacement {
    if (is<ops::Add>(node)) return without_convolution(rewriter, node);
    const auto layer = match<ops::Linear>(node);
    if (!layer || layer->is_quantized() || layer->epilogue != ops::LinearEpilogue::kNone) return std::nullopt;
    const Graph& old = rewriter.old();
    if (layer->is_unquantized_product() && layer->has_addend && is_state(old, node.inputs[1], kLoraB))
      return std::vector<Value>{rewriter.map(node.inputs.back())};
    if (layer->weights == 1) return std::nullopt;
    std::vector<Value> values(node.outputs.size());
    for (const bool of_a : {false, true}) emit_part(rewriter, node, of_a, values);
    return values;
  });
}

std::span<const float> f32_of(const Model& model, const std::string& name, Tensor& holder) {
  holder = initial_value(model.state(model.find_state(name))).to(DType::f32);
  return holder.as<float>();
}

Tensor merged(const Model& model, const std::string& layer, double scale) {
  Tensor w_holder, a_holder, b_holder;
  const std::span<const float> w = f32_of(model, layer + ".weight", w_holder),
                               a = f32_of(model, layer + std::string(kLoraA), a_holder),
                               b = f32_of(model, layer + std::string(kLoraB), b_holder);
  const TensorType& type = model.state(model.find_state(layer + ".weight")).type;
  const auto rows = type.shape[0].value(), columns = rows == 0 ? 0 : type.numel() / rows;
  const auto rank = static_cast<int64_t>(b.size()) / rows;
  std::byte* data;
  const Tensor sum = Tensor::uninitialized({DType::f32, type.shape}, &data);
  auto* out = reinterpret_cast<float*>(data);
  in_parallel(rows, 16, [&](int64_t first, int64_t last) {
    std::vector<float> product(static_cast<size_t>(columns));
    for (int64_t row = first; row < last; ++row) {
      std::ranges::fill(product, 0.0f);
      for (int64_t r = 0; r < rank; ++r) {
        const float factor = b[static_cast<size_t>(row * rank + r)];
        const float* from = a.data() + r * columns;
        for (int64_t i = 0; i < columns; ++i) product[static_cast<size_t>(i)] += factor * from[i];
      }
      for (int64_t i = 0; i < columns; ++i)
        out[row * columns + i] = w[static_cast<size_t>(row * columns + i)] +
                                 static_cast<float>(scale) * product[static_cast<size_t>(i)];
    }
  });
  return sum.to(type.dtype);
}

}  // namespace

std::unique_ptr<Model> merge_lora(const Model& model) {
  const std::optional<LoraOptions> options = lora_of(model);
  if (!options) fail("the model has no LoRA adapters to merge");
  Model whole(model);
  for (const std::string& layer : lora_layers(model))
    whole.set_initial(whole.find_state(layer + ".weight"), merged(model, layer, options->scale_of(layer)));
  const std::set<std::string> names = lasting_entries(model);
  for (const std::string& name : names)
    whole.replace_entry(without_adapters(std::as_const(whole).entry(name)));
  std::unique_ptr<Model> result = extract_entries(whole, names);
  for (int32_t i = 0; i < static_cast<int32_t>(result->states().size()); ++i)
    if (result->state(i).role == StateRole::kParameter) result->set_trainable(i, !result->state(i).encoded);
  for (const State& state : result->states())
    if (is_adapter(state))
      fail("'{}' is read by more than its layer: merge the adapters before other passes change the model",
           state.name);
  for (const char* key : {"lora", "training"}) result->metadata.erase(key);
  return result;
}

}  // namespace genesis::passes
