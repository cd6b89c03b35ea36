#include "passes/lora/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "passes/core/match.h"
#include "passes/core/name_patterns.h"
#include "passes/core/rewriter.h"
#include "schema/core/philox.h"
#include "schema/file/json_text.h"
#include "schema/graph/near_names.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/random.h"

namespace genesis::passes {
namespace {

constexpr const char* kMetadata = "lora";
constexpr std::string_view kWeight = ".weight";
// Random streams of LoRA begin here, beyond those of a model's own dropouts.
constexpr int64_t kFirstStream = 1 << 20;

// Returns the layer of a weight; empty if the state is no layer's weight.
std::string layer_of(const std::string& state) {
  return state.ends_with(kWeight) ? state.substr(0, state.size() - kWeight.size()) : "";
}

// Returns the weight of a linear layer or a convolution; -1 for other nodes.
int32_t weight_of(const Graph& graph, const Node& node) {
  const auto layer = match<ops::Linear>(node);
  if (!layer && !is<ops::Convolution>(node)) return -1;
  const ValueInfo& weight = graph.value(node.inputs[layer ? layer->first_weight() : 1]);
  return weight.kind == ValueKind::kState ? weight.index : -1;
}

// Holds the weights of linear layers and convolutions by layer name, and the states that only targets name: those that embeddings look up,
// and weights of convolutions.
struct Layers {
  std::map<std::string, int32_t> weights;
  std::set<int32_t> only_named;

  explicit Layers(const Model& model) {
    for (const auto& entry : model.entries())
      for (const Node& node : entry->nodes()) {
        add(model, weight_of(*entry, node));
        if (!is<ops::Embedding, ops::Convolution>(node)) continue;
        for (const ValueId input : node.inputs)
          if (const ValueInfo& value = entry->value(input); value.kind == ValueKind::kState)
            only_named.insert(value.index);
      }
  }
  void add(const Model& model, int32_t weight) {
    if (weight < 0 || model.state(weight).role != StateRole::kParameter) return;
    if (const std::string layer = layer_of(model.state(weight).name); !layer.empty()) weights[layer] = weight;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& [name, weight] : weights) found.push_back(name);
    return found;
  }
};

std::string last_part(const std::string& layer) { return layer.substr(layer.rfind('.') + 1); }

bool is_target(const std::string& target, const std::string& layer) {
  return layer == target || layer.ends_with("." + target) || matches_any({target}, layer);
}

[[noreturn]] void fail_no_layer(const std::string& target, const Layers& layers) {
  std::set<std::string> names;
  for (const std::string& layer : layers.names()) names.insert({layer, last_part(layer)});
  const std::string near = near_names(target, {names.begin(), names.end()});
  fail("the LoRA target '{}' names no linear layer or convolution of the model{}", target,
       near.empty() ? "" : "; near it are: " + near);
}

std::set<int32_t> chosen_weights(const LoraOptions& options, const Layers& layers) {
  std::set<int32_t> chosen;
  for (const std::string& target : options.targets) {
    const size_t before = chosen.size();
    bool found = false;
    for (const auto& [layer, weight] : layers.weights)
      if (is_target(target, layer)) found = true, chosen.insert(weight);
    if (!found && chosen.size() == before) fail_no_layer(target, layers);
  }
  if (options.targets.empty())
    for (const auto& [layer, weight] : layers.weights)
      if (!layers.only_named.contains(weight) && last_part(layer) != "lm_head") chosen.insert(weight);
  if (chosen.empty())
    fail("the model has no linear layer that LoRA could be added to; convolutions are named as targets");
  return chosen;
}

Tensor initial_a(const TensorType& type, uint64_t seed, const std::string& name) {
  std::byte* data;
  Tensor a = Tensor::uninitialized(type, &data);
  const double bound = 1 / std::sqrt(static_cast<double>(type.numel() / type.shape[0].value()));
  uint64_t stream = 14695981039346656037ull;  // FNV-1a of the name, as for other parameters
  for (const unsigned char c : name) stream = (stream ^ c) * 1099511628211ull;
  fill_uniform({reinterpret_cast<float*>(data), static_cast<size_t>(type.numel())}, seed, stream, -bound,
               bound);
  return a;
}

struct Adapter {
  int32_t a, b;
  double scale;  // alpha / rank
};

Adapter add_states(Model& model, int32_t weight, const LoraOptions& options) {
  const State state = model.state(weight);  // a copy: the table grows
  const Shape& shape = state.type.shape;
  const std::string layer = layer_of(state.name);
  const int64_t rank = options.rank_of(layer);
  // One rank is used for matrices of many shapes, some of which have fewer rows or columns than it.
  if (rank > std::max(shape[0].value(), shape[1].value()))
    fail("LoRA's rank {} is more than '{}' of {} has rows or columns", rank, state.name,
         state.type.to_string());
  const auto add = [&](const std::string& name, const Shape& own, bool is_a) {
    const TensorType type{DType::f32, own};
    return model.add_state({.name = name,
                            .type = type,
                            .role = StateRole::kParameter,
                            .trainable = true,
                            .initial = is_a ? initial_a(type, options.seed, name) : Tensor()});
  };
  // The adapter of a convolution is a convolution to `rank` channels and one of single elements.
  Shape of_a = shape, of_b(std::vector<Dim>(static_cast<size_t>(shape.rank()), Dim(1)));
  of_a[0] = of_b[1] = Dim(rank), of_b[0] = shape[0];
  const int32_t a = add(layer + std::string(kLoraA), of_a, true);
  return {a, add(layer + std::string(kLoraB), of_b, false), options.scale_of(layer)};
}

int32_t random_state(Model& model, uint64_t seed) {
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i)
    if (model.state(i).role == StateRole::kRandom) return i;
  const Tensor start = Tensor::of<int64_t>({2}, {static_cast<int64_t>(seed), 0});
  return model.add_state({.name = "rng",
                          .type = start.type(),
                          .role = StateRole::kRandom,
                          .trainable = false,
                          .initial = start});
}

// Adds the adapters to the layers of one entry point.
class Adder {
 public:
  Adder(const std::map<int32_t, Adapter>& adapters, const LoraOptions& options, int32_t rng)
      : adapters_(adapters), options_(options), rng_(rng) {}

  Graph run(const Graph& graph) {
    return rewrite(graph, [&](Rewriter& rewriter, const Node& node) { return visit(rewriter, node); });
  }

 private:
  Replacement visit(Rewriter& rewriter, const Node& node) {
    const auto at = adapters_.find(weight_of(rewriter.old(), node));
    if (at == adapters_.end()) return std::nullopt;
    if (is<ops::Convolution>(node)) return visit_convolution(rewriter, node, at->second);
    auto layer = match<ops::Linear>(node);
    if (!layer->is_unquantized_product())
      fail("layer '{}' was merged with others by passes: add LoRA to the model as it was built",
           node.authored_name());
    std::vector<Value> inputs = rewriter.map(node.inputs);
    const Activation activation = std::exchange(layer.attributes.activation, Activation::kNone);
    const Value base = emit_node(*node.op, to_attributes(layer.attributes), inputs)[0];
    const Value sum = with_adapter(inputs[0], base, layer->wide, at->second);
    return std::vector<Value>{activation == Activation::kNone ? sum : activate(sum, activation)};
  }

  Replacement visit_convolution(Rewriter& rewriter, const Node& node, const Adapter& adapter) {
    const auto op = from_attributes<ops::Convolution>(node.attributes);
    if (op.activation != ConvolutionActivation::kNone || op.has_scale || op.has_addend ||
        op.windows.channels_last)
      fail("layer '{}' was merged with others by passes: add LoRA to the model as it was built",
           node.authored_name());
    if (op.groups != 1)
      fail("layer '{}' has {} groups: LoRA takes convolutions of one group", node.authored_name(), op.groups);
    const std::vector<Value> inputs = rewriter.map(node.inputs);
    const Value base = emit_node(*node.op, node.attributes, inputs)[0];
    Graph& graph = *base.graph;
    const NameScope scope(graph, "lora");
    Value read = cast(inputs[0], DType::f32);
    if (rng_ >= 0) read = dropped(graph.state(rng_), read);
    const std::vector<int64_t> ones(op.windows.axes(), 1), zeros(op.windows.axes(), 0);
    const Value down =
        emit(ops::Convolution{.windows = op.windows}, {read, graph.state(adapter.a)}) * adapter.scale;
    const Value up =
        emit(ops::Convolution{.windows = {ones, ones, zeros, zeros}}, {down, graph.state(adapter.b)});
    return std::vector<Value>{cast(cast(base, DType::f32) + up, base.dtype())};
  }

  // Makes the sum the second product's addend, which saves a pass over memory and lets merge_lora() find it.
  Value with_adapter(Value x, Value base, bool wide, const Adapter& adapter) {
    Graph& graph = *x.graph;
    const NameScope scope(graph, "lora");
    Value read = cast(x, DType::f32);
    if (rng_ >= 0) read = dropped(graph.state(rng_), read);
    const Value down = linear(read, graph.state(adapter.a)) * adapter.scale;
    const Value sum =
        linear({.wide = wide},
               {.x = down, .weights = {graph.state(adapter.b)}, .addend = cast(base, DType::f32)})[0];
    return cast(sum, base.dtype());
  }

  Value dropped(Value rng, Value x) {
    const ops::Dropout op{.p = options_.dropout, .stream = kFirstStream + streams_++};
    return emit(op, {rng, x});
  }

  static Value activate(Value x, Activation activation) {
    if (activation == Activation::kRelu) return relu(x);
    if (activation == Activation::kSilu) return silu(x);
    return gelu(x, activation == Activation::kGeluTanh ? GeluKind::kTanh : GeluKind::kErf);
  }

  const std::map<int32_t, Adapter>& adapters_;
  const LoraOptions& options_;
  int32_t rng_;  // -1: no dropout
  int64_t streams_ = 0;
};

void check_settings(int64_t rank, double alpha) {
  if (rank < 1) fail("LoRA's rank is {}, expected 1 or more", rank);
  if (!(alpha > 0)) fail("LoRA's alpha is {}, expected more than 0", alpha);
}

void check_can_add(const Model& model, const LoraOptions& options) {
  if (lora_of(model)) fail("the model has LoRA adapters already: merge them first, or train those");
  for (const State& state : model.states())
    if (state.role == StateRole::kOptimizer || state.role == StateRole::kStep)
      fail("the model has a training step already ('{}'): add LoRA before training", state.name);
  check_settings(options.rank, options.alpha);
  for (const auto& [layer, rank] : options.ranks) check_settings(rank, options.alpha);
  for (const auto& [layer, alpha] : options.alphas) check_settings(options.rank, alpha);
  if (!(options.dropout >= 0 && options.dropout < 1))
    fail("LoRA's dropout is {}, expected at least 0 and less than 1", options.dropout);
}

// True for options by layer; they are left out of the text if there are none, as in files of earlier versions.
template <class Field>
concept IsByLayer = requires {
  typename std::remove_cvref_t<Field>::mapped_type;
};

nlohmann::ordered_json json_of(const LoraOptions& options) {
  nlohmann::ordered_json json;
  LoraOptions::fields(options, [&](std::string_view name, const auto& field) {
    if constexpr (IsByLayer<decltype(field)>)
      if (field.empty()) return;
    json[std::string(name)] = field;
  });
  return json;
}

}  // namespace

int64_t LoraOptions::rank_of(const std::string& layer) const {
  const auto at = ranks.find(layer);
  return at == ranks.end() ? rank : at->second;
}

double LoraOptions::alpha_of(const std::string& layer) const {
  const auto at = alphas.find(layer);
  return at == alphas.end() ? alpha : at->second;
}

double LoraOptions::scale_of(const std::string& layer) const {
  return alpha_of(layer) / static_cast<double>(rank_of(layer));
}

void add_lora(Model& model, const LoraOptions& options) {
  check_can_add(model, options);
  const std::set<int32_t> weights = chosen_weights(options, Layers(model));
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i) model.set_trainable(i, false);
  std::map<int32_t, Adapter> adapters;
  for (const int32_t weight : weights) adapters[weight] = add_states(model, weight, options);
  const int32_t rng = options.dropout > 0 ? random_state(model, options.seed) : -1;
  std::vector<std::string> entries;
  for (const auto& entry : model.entries()) entries.push_back(entry->name());
  for (const std::string& name : entries)
    model.replace_entry(
        Adder(adapters, options, name.starts_with("loss") ? rng : -1).run(std::as_const(model).entry(name)));
  model.metadata[kMetadata] = json_of(options).dump();
}

std::optional<LoraOptions> lora_of(const Model& model) {
  const auto at = model.metadata.find(kMetadata);
  if (at == model.metadata.end()) return std::nullopt;
  LoraOptions options;
  try {
    const auto json = parse_json_object(at->second, fmt::format("the model's metadata '{}'", kMetadata));
    LoraOptions::fields(options, [&](std::string_view name, auto& field) {
      if constexpr (IsByLayer<decltype(field)>)
        if (!json.contains(std::string(name))) return;
      json.at(std::string(name)).get_to(field);
    });
  } catch (const nlohmann::json::exception& error) {
    fail("the model's metadata '{}' is '{}', expected the settings of LoRA: {}", kMetadata, at->second,
         error.what());
  }
  return options;
}

bool is_adapter(const State& state) {
  return state.role == StateRole::kParameter &&
         (state.name.ends_with(kLoraA) || state.name.ends_with(kLoraB));
}

std::vector<std::string> lora_layers(const Model& model) {
  std::vector<std::string> layers;
  for (const State& state : model.states())
    if (is_adapter(state) && state.name.ends_with(kLoraA))
      layers.push_back(state.name.substr(0, state.name.size() - kLoraA.size()));
  return layers;
}

}  // namespace genesis::passes
