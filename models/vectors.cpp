#include "models/vectors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "builder/genesis.h"
#include "builder/skip_init.h"
#include "models/config_fields.h"
#include "models/config_sizes.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "passes/simplify/passes.h"
#include "schema/file/json_text.h"

namespace genesis::models {
namespace {

constexpr const char *kMetadata = "vectors", *kDense = "vectors.dense.";

// The features of the tokens of texts, and which tokens count.
struct Features {
  Value hidden;   // f32[batch, seq, features]
  Value lengths;  // i64[batch]
  Value weights;  // f32[batch, seq, 1]: 1 for a token that counts, else 0
};

Value positive(Value x) { return maximum(x, Scalar(1e-9)); }
Value counted(const Features& x) { return positive(sum(x.weights, {1})); }

// Returns the features [batch, features] of the token of each text at this place, i64[batch].
Value at_place(Value hidden, Value place) {
  const Shape whole{hidden.dim(0), 1, hidden.dim(2)};
  const Value index = expand(reshape(place, {hidden.dim(0), 1, 1}), whole);
  return reshape(gather(hidden, 1, index), {hidden.dim(0), hidden.dim(2)});
}

Value cls(const Features& x) { return reshape(slice(x.hidden, 1, 0, 1), {x.hidden.dim(0), x.hidden.dim(2)}); }
Value greatest(const Features& x) { return max(where(x.weights > 0, x.hidden, Scalar(-1e9)), {1}); }
Value mean_of(const Features& x) { return sum(x.hidden * x.weights, {1}) / counted(x); }
Value mean_by_root(const Features& x) { return sum(x.hidden * x.weights, {1}) / sqrt(counted(x)); }
Value weighted_mean(const Features& x) {
  const Value places = cast(arange(*x.hidden.graph, x.hidden.dim(1)) + 1, DType::f32);
  const Value weights = x.weights * unsqueeze(places, 1);
  return sum(x.hidden * weights, {1}) / positive(sum(weights, {1}));
}
Value last_token(const Features& x) {
  const Value last = maximum(x.lengths - 1, Scalar(0));
  return at_place(x.hidden * x.weights, last);
}

struct Mode {
  const char* name;
  Value (*of)(const Features& features);
};
constexpr Mode kModes[] = {{"cls", cls},
                           {"max", greatest},
                           {"mean", mean_of},
                           {"mean_sqrt_len_tokens", mean_by_root},
                           {"weightedmean", weighted_mean},
                           {"lasttoken", last_token}};

Value activated(Value x, const std::string& name) {
  if (name == "tanh") return tanh(x);
  if (name == "relu") return relu(x);
  if (name == "gelu") return gelu(x);
  return name == "sigmoid" ? sigmoid(x) : x;
}

void check(const VectorSettings& s) {
  if (s.pooling.empty()) fail("vectors of texts need a pooling: {}", fmt::join(pooling_modes(), ", "));
  for (const std::string& mode : s.pooling)
    if (std::ranges::find(pooling_modes(), mode) == pooling_modes().end())
      fail("there is no pooling '{}': expected {}", mode, fmt::join(pooling_modes(), ", "));
  if (s.dense_features.size() != s.dense_activations.size())
    fail("dense_features has {} entries and dense_activations {}", s.dense_features.size(),
         s.dense_activations.size());
  for (const int64_t size : s.dense_features) check_size("vectors", "dense_features", size);
  for (const std::string& name : s.dense_activations)
    if (name != "identity" && name != "tanh" && name != "relu" && name != "gelu" && name != "sigmoid")
      fail("there is no dense activation '{}': expected identity, tanh, relu, gelu or sigmoid", name);
}

// Returns the product from which `forward` makes its logits: behind it are only factors and limits.
const Node& head_of(const Graph& forward) {
  for (const NamedValue& output : forward.outputs()) {
    if (output.name != "logits" || forward.type(output.value).shape.rank() != 3) continue;
    ValueId value = output.value;
    while (const Node* node = passes::producer(forward, value)) {
      if (passes::is<ops::Linear>(*node)) return *node;
      if (node->inputs.empty()) break;
      value = node->inputs[0];
    }
  }
  fail(
      "the entry point 'forward' of the model computes no logits of tokens by a product: it has no features "
      "of "
      "tokens");
}

class VectorEntry {
 public:
  VectorEntry(Model& model, const VectorSettings& settings) : settings_(settings), g_(model, "embed") {}

  void add() { g_.output("vectors", made(features())); }

 private:
  Features features() {
    const Model& model = g_.model();
    const Graph* hidden = model.find_entry("hidden");
    const Graph& from = hidden ? *hidden : model.entry("forward");
    std::vector<Value> inputs;
    for (const ValueId input : from.inputs())
      inputs.push_back(g_.input(from.value(input).name, from.type(input).dtype, from.type(input).shape));
    const Value tokens = inputs[0];
    Features x;
    x.lengths = hidden ? inputs[1] : g_.input("lengths", DType::i64, {tokens.dim(0)});
    x.hidden =
        cast(hidden ? passes::inline_graph(g_, from, inputs).outputs.at("hidden") : before_head(from, inputs),
             DType::f32);
    x.weights = unsqueeze(cast(counts(tokens, x.lengths), DType::f32), 2);
    return x;
  }

  Value before_head(const Graph& forward, const std::vector<Value>& inputs) {
    const Node& head = head_of(forward);
    Value found;
    passes::inline_graph(g_, forward, inputs, {}, [&](const Node& node, const std::vector<Value>& operands) {
      if (&node == &head) found = operands[0];
      return Value();
    });
    return found;
  }

  // Returns bool[batch, seq]: true for the tokens that pooling sees.
  Value counts(Value tokens, Value lengths) {
    const Value place = arange(g_.graph(), tokens.dim(1));
    const Value real = place < unsqueeze(lengths, 1);
    if (settings_.pooling_includes_prompt) return real;
    const Value prompt = g_.input("prompt_lengths", DType::i64, {tokens.dim(0)});
    return logical_and(real, place >= unsqueeze(prompt, 1));
  }

  Value made(const Features& x) {
    std::vector<Value> parts;
    for (const auto& [name, of] : kModes)
      if (std::ranges::find(settings_.pooling, name) != settings_.pooling.end()) parts.push_back(of(x));
    Value vector = parts.size() == 1 ? parts[0] : concat(parts, 1);
    for (size_t i = 0; i < settings_.dense_features.size(); ++i)
      vector = activated(dense(i, vector.dim(1).value())(vector), settings_.dense_activations[i]);
    return settings_.normalize ? normalize(vector, -1) : vector;
  }

  nn::Linear dense(size_t layer, int64_t features) const {
    const init::SkipInit no_values;
    return nn::Linear(Scope(g_.model()) / "vectors" / "dense" / static_cast<int64_t>(layer), features,
                      settings_.dense_features[layer], {.bias = settings_.dense_bias});
  }

  const VectorSettings& settings_;
  GraphBuilder g_;
};

}  // namespace

const std::vector<std::string>& pooling_modes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Mode& mode : kModes) all.emplace_back(mode.name);
    return all;
  }();
  return names;
}

std::string dense_state(size_t layer, const std::string& part) {
  return fmt::format("{}{}.{}", kDense, layer, part);
}
bool is_dense_state(const std::string& name) { return name.starts_with(kDense); }

void add_vectors(Model& model, const VectorSettings& settings) {
  check(settings);
  if (!model.find_entry("hidden") && !model.find_entry("forward"))
    fail(
        "the model has no entry point 'hidden' or 'forward': it has no features of tokens to make vectors "
        "of");
  if (model.find_entry("embed")) model.remove_entry("embed");
  VectorEntry(model, settings).add();
  const Graph& entry = model.entry("embed");
  model.replace_entry(
      passes::eliminate_dead_code(entry, {}));  // removes the product that makes the logits of a decoder
  model.metadata[kMetadata] = nlohmann::json(fields_json(settings)).dump();
}

std::optional<VectorSettings> vectors_of(const Model& model) {
  const auto at = model.metadata.find(kMetadata);
  if (at == model.metadata.end() || !model.find_entry("embed")) return std::nullopt;
  VectorSettings settings;
  with_context([&] { read_fields("vectors", parse_json_text(at->second), settings); },
               [&] { return std::string("in the model's metadata 'vectors'"); });
  return settings;
}

}  // namespace genesis::models
