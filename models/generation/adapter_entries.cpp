#include "models/generation/adapter_entries.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "builder/genesis.h"
#include "executor/generation/entry_points.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/lora/lora.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::text {
namespace {

// The sizes of a layer's matrices, and the largest rank that an adapter has there.
struct Sizes {
  int64_t in = 0, out = 0, rank = 0;
};

std::map<std::string, Sizes> sizes_of(std::span<const Adapter> adapters) {
  std::map<std::string, Sizes> all;
  for (const Adapter& adapter : adapters)
    for (const auto& [name, layer] : adapter.layers) {
      Sizes& sizes = all[name];
      sizes.in = layer.a.type().shape[1].value();
      sizes.out = layer.b.type().shape[0].value();
      sizes.rank = std::max(sizes.rank, layer.a.type().shape[0].value());
    }
  return all;
}

// The matrices of all adapters of a layer: A [adapters, rank, in] and B [adapters, out, rank].
struct LayerStates {
  int32_t a = -1, b = -1;
};

// Writes a matrix into the upper left corner of one of `rows` by `columns` zeros.
void put(float* to, int64_t columns, const Tensor& from) {
  const auto width = from.type().shape[1].value();
  for (int64_t row = 0; row < from.type().shape[0].value(); ++row)
    std::memcpy(to + row * columns, from.as<float>().data() + row * width,
                static_cast<size_t>(width) * sizeof(float));
}

LayerStates add_states(Model& model, const std::string& layer, const Sizes& sizes,
                       std::span<const Adapter> adapters) {
  const auto add = [&](const char* end, int64_t rows, int64_t columns, Tensor Adapter::Layer::*part) {
    const TensorType type{DType::f32, {std::ssize(adapters), rows, columns}};
    std::byte* data;
    const Tensor all = Tensor::uninitialized(type, &data);
    std::memset(data, 0, static_cast<size_t>(type.bytes()));
    auto* to = reinterpret_cast<float*>(data);
    for (size_t i = 0; i < adapters.size(); ++i)
      if (const auto own = adapters[i].layers.find(layer); own != adapters[i].layers.end())
        put(to + static_cast<int64_t>(i) * rows * columns, columns, own->second.*part);
    return model.add_state({.name = "adapters." + layer + end,
                            .type = type,
                            .role = StateRole::kParameter,
                            .trainable = false,
                            .initial = all});
  };
  return {add(".A", sizes.rank, sizes.in, &Adapter::Layer::a),
          add(".B", sizes.out, sizes.rank, &Adapter::Layer::b)};
}

// Adds the layers' adapters to one entry point.
class Adder {
 public:
  Adder(const std::map<int32_t, LayerStates>& layers, int32_t adapters, int64_t count)
      : layers_(layers), adapters_(adapters), count_(count) {}

  Graph run(const Graph& graph) {
    return passes::rewrite(
        graph, [&](passes::Rewriter& rewriter, const Node& node) { return visit(rewriter, node); });
  }

 private:
  // The tokens of an entry point, sorted by adapter.
  struct Order {
    Value places,
        back;  // i64 [tokens]: the token of each place, and the place of each token; null: they are in order
    Value offsets;  // i64 [adapters + 1]: the first place of each adapter; places before them have none
  };

  passes::Replacement visit(passes::Rewriter& rewriter, const Node& node) {
    const auto layer = passes::match<ops::Linear>(node);
    if (!layer) return std::nullopt;
    const int32_t weight = passes::state_of(rewriter.old(), node.inputs[layer->first_weight()]);
    const auto at = layers_.find(weight);
    if (weight < 0 || at == layers_.end()) return std::nullopt;
    if (!layer->is_unquantized_product())
      fail("layer '{}' was merged with others by passes: adapters need the model as it was built",
           node.authored_name());
    ops::Linear plain = layer.attributes;
    const Activation activation = std::exchange(plain.activation, Activation::kNone);
    const std::vector<Value> inputs = rewriter.map(node.inputs);
    const Value base = emit_node(*node.op, to_attributes(plain), inputs)[0];
    const NameScope scope(rewriter.graph(), "adapter");
    const Value sum = cast(cast(base, DType::f32) + addition(inputs[0], at->second, node), base.dtype());
    return std::vector<Value>{activated(sum, activation)};
  }

  static Value activated(Value x, Activation activation) {
    if (activation == Activation::kNone) return x;
    if (activation == Activation::kRelu) return relu(x);
    if (activation == Activation::kSilu) return silu(x);
    return gelu(x, activation == Activation::kGeluTanh ? GeluKind::kTanh : GeluKind::kErf);
  }

  Value addition(Value x, const LayerStates& layer, const Node& node) {
    Graph& graph = *x.graph;
    const Value ids = row_ids(graph);
    const bool is_flat = x.rank() == 2;  // a row of the last token of each text
    if (x.rank() < 2 || x.rank() > 3 || !(x.dim(0) == ids.dim(0)))
      fail("layer '{}' reads {}, not tokens of {} rows: an adapter of it cannot be chosen by row",
           node.authored_name(), x.type().to_string(), ids.dim(0).to_string());
    const bool are_alone = is_flat || x.dim(1) == Dim(1);
    const Order& order = are_alone ? order_of_rows(ids) : order_of_tokens(ids, x.dim(1));
    // Tokens of different texts are rows [1, in] of a batch: their number must not choose the order of sums
    // (backends/cpu/product_implementations.h).
    const Dim tokens = is_flat ? x.dim(0) : x.dim(0) * x.dim(1), in = x.dim(x.rank() - 1);
    Value rows = reshape(cast(x, DType::f32), are_alone ? Shape{tokens, 1, in} : Shape{tokens, in});
    if (order.places) rows = index_select(rows, 0, order.places);
    Value y = grouped_matmul(grouped_matmul(rows, graph.state(layer.a), order.offsets), graph.state(layer.b),
                             order.offsets);
    if (order.back) y = index_select(y, 0, order.back);
    std::vector<Dim> sizes = x.shape().dims();
    sizes.back() = y.dim(y.rank() - 1);
    return reshape(y, Shape(sizes));
  }

  // The adapters of the rows that the entry point reads: of all, or of the one that its input "row" names.
  Value row_ids(Graph& graph) {
    if (ids_) return ids_;
    ids_ = graph.state(adapters_);
    for (const ValueId input : graph.inputs())
      if (graph.value(input).name == "row") ids_ = dynamic_slice(ids_, Value{&graph, input}, 0, 1);
    return ids_;
  }

  // Returns how many of the adapters, i64 [tokens], are at most 0, 1, ..., count_: i64 [count_ + 1].
  Value offsets_of(Value ids) const {
    const Value upto = unsqueeze(arange(*ids.graph, count_ + 1), 1);
    return sum(cast(le(unsqueeze(ids, 0), upto), DType::i64), {1});
  }

  Order sorted(Value ids) const {
    const Value places = argsort(ids, 0);
    return {places, argsort(places, 0), offsets_of(ids)};
  }

  const Order& order_of_rows(Value ids) {
    if (!of_rows_.offsets) of_rows_ = ids.dim(0) == Dim(1) ? Order{{}, {}, offsets_of(ids)} : sorted(ids);
    return of_rows_;
  }

  const Order& order_of_tokens(Value ids, Dim each) {
    if (of_tokens_.offsets) return of_tokens_;
    if (ids.dim(0) == Dim(1)) return of_tokens_ = {{}, {}, offsets_of(ids) * dim_value(*ids.graph, each)};
    const Value all = reshape(expand(unsqueeze(ids, 1), {ids.dim(0), each}), {ids.dim(0) * each});
    return of_tokens_ = sorted(all);
  }

  const std::map<int32_t, LayerStates>& layers_;
  const int32_t adapters_;
  const int64_t count_;
  Value ids_;
  Order of_rows_, of_tokens_;
};

int32_t checked_weight(const Model& model, const std::string& layer, const Sizes& sizes) {
  const int32_t weight = model.find_state(layer + ".weight");
  const TensorType wanted{DType::f32, {sizes.out, sizes.in}};
  if (weight < 0 || !(model.state(weight).type.shape == wanted.shape))
    fail("the adapter's layer '{}' is [{}, {}], and the model has no such weight", layer, sizes.out,
         sizes.in);
  return weight;
}

}  // namespace

Adapter adapter_of(const Model& adapted, const std::string& name) {
  const auto options = passes::lora_of(adapted);
  if (!options) fail("the adapter '{}' has no layer with LoRA", name);
  Adapter adapter{.name = name, .layers = {}};
  for (const std::string& layer : passes::lora_layers(adapted)) {
    const auto value = [&](std::string_view part) {
      return initial_value(adapted.state(adapted.find_state(layer + std::string(part)))).to(DType::f32);
    };
    const Tensor b = value(passes::kLoraB);
    const auto scale = static_cast<float>(options->scale_of(layer));
    std::vector<float> scaled(b.as<float>().begin(), b.as<float>().end());
    for (float& x : scaled) x *= scale;
    adapter.layers[layer] = {value(passes::kLoraA), Tensor::of<float>(b.type().shape.sizes(), scaled)};
  }
  return adapter;
}

int64_t adapter_bytes(std::span<const Adapter> adapters) {
  int64_t numbers = 0;
  for (const auto& [layer, sizes] : sizes_of(adapters)) numbers += sizes.rank * (sizes.in + sizes.out);
  return numbers * std::ssize(adapters) * static_cast<int64_t>(sizeof(float));
}

std::shared_ptr<const Model> with_adapters(const Model& model, std::span<const Adapter> adapters) {
  auto with = std::make_shared<Model>(model);
  const int64_t rows = generation::rows_of_cache(model), count = std::ssize(adapters);
  const int32_t chosen = with->add_state({.name = generation::kAdapters,
                                          .type = {DType::i64, {rows}},
                                          .role = StateRole::kCache,
                                          .trainable = false});
  std::map<int32_t, LayerStates> layers;
  for (const auto& [layer, sizes] : sizes_of(adapters)) {
    const int32_t weight = checked_weight(model, layer, sizes);
    layers[weight] = add_states(*with, layer, sizes, adapters);
  }
  for (const char* entry : {"prefill", "prefill_row", "decode"})
    if (model.find_entry(entry))
      with->replace_entry(Adder(layers, chosen, count).run(std::as_const(*with).entry(entry)));
  with->metadata[generation::kAdapters] = std::to_string(count);
  return with;
}

}  // namespace genesis::text
