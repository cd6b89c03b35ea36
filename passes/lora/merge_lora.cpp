// W + alpha / rank B A, and graphs as they were before add_lora().
#include <set>
#include <utility>

#include "passes/core/extract.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/lora/lora.h"
#include "passes/training/evaluation.h"
#include "schema/core/parallel.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {
namespace {

constexpr std::string_view kB = ".lora_B.weight";

// The sum of a layer and its adapter is the layer alone.
Graph without_adapters(const Graph& graph) {
  return rewrite(graph, [](Rewriter& rewriter, const Node& node) -> Replacement {
    const auto layer = match<ops::Linear>(node);
    if (!layer || !layer->is_plain() || !layer->has_addend) return std::nullopt;
    const Graph& old = rewriter.old();
    const ValueInfo& weight = old.value(node.inputs[1]);
    if (weight.kind != ValueKind::kState || !old.model().state(weight.index).name.ends_with(kB))
      return std::nullopt;
    return std::vector<Value>{rewriter.map(node.inputs.back())};
  });
}

std::span<const float> f32_of(const Model& model, const std::string& name, Tensor& holder) {
  holder = initial_value(model.state(model.find_state(name))).to(DType::f32);
  return holder.as<float>();
}

Tensor merged(const Model& model, const std::string& layer, double scale) {
  Tensor w_holder, a_holder, b_holder;
  const std::span<const float> w = f32_of(model, layer + ".weight", w_holder),
                               a = f32_of(model, layer + ".lora_A.weight", a_holder),
                               b = f32_of(model, layer + std::string(kB), b_holder);
  const TensorType& type = model.state(model.find_state(layer + ".weight")).type;
  const auto rows = type.shape[0].value(), columns = type.shape[1].value();
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
    whole.set_initial(whole.find_state(layer + ".weight"),
                      merged(model, layer, options->alpha / static_cast<double>(options->rank)));
  const std::set<std::string> names = lasting_entries(model);
  for (const std::string& name : names)
    whole.replace_entry(without_adapters(std::as_const(whole).entry(name)));
  std::unique_ptr<Model> result = extract_entries(whole, names);
  for (int32_t i = 0; i < static_cast<int32_t>(result->states().size()); ++i)
    if (result->state(i).role == StateRole::kParameter) result->set_trainable(i, true);
  for (const char* key : {"lora", "training"}) result->metadata.erase(key);
  return result;
}

}  // namespace genesis::passes
