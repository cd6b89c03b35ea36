#include "passes/core/quantized_cache.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/graph/caches.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/quantized_cache.h"
#include "schema/ops/tensor/dynamic_slice.h"

namespace genesis::passes {
namespace {

constexpr const char* kScales = ".scales";

Value numbers_of(const QuantizedRows& rows, DType dtype) {
  return cast(cast(rows.quants, DType::f32) * rows.scales, dtype);
}

// Returns true for keys or values of tokens, which are stored head by head.
bool holds_numbers_of_tokens(const State& state) {
  const auto layout = cache_layout(state);
  return layout && layout->rows_axis == 0 && layout->positions_axis == 1 && state.type.shape.rank() == 4 &&
         is_float(state.type.dtype);
}

// Adds the tables of `model` to `quantized`, states at the same places. Returns the states of scales, by the state of quants.
std::map<int32_t, int32_t> add_tables(const Model& model, Model& quantized) {
  for (const NamedTensor& tensor : model.tensors()) quantized.add_tensor(tensor.name, tensor.tensor);
  std::vector<std::pair<int32_t, State>> scales;
  for (State state : model.states()) {
    if (holds_numbers_of_tokens(state)) {
      State of_state = state;
      of_state.name += kScales;
      of_state.type = {DType::f32, state.type.shape};
      of_state.type.shape[3] = 1;
      of_state.cache = cache_layout(state);
      of_state.cache->kind += of_state.cache->kind.empty() ? "scales" : " scales";
      scales.emplace_back(static_cast<int32_t>(quantized.states().size()), of_state);
      state.cache = cache_layout(state);
      state.type.dtype = DType::i8;
    }
    quantized.add_state(std::move(state));
  }
  std::map<int32_t, int32_t> places;
  for (auto& [quants, state] : scales) places[quants] = quantized.add_state(std::move(state));
  return places;
}

// Writes an entry point for caches in 8 bits.
class QuantizedEntry {
 public:
  QuantizedEntry(const Graph& old, Graph& graph, const std::map<int32_t, int32_t>& scales)
      : old_(old), graph_(graph), scales_(scales), values_(old.values().size()) {
    for (const ValueId id : old.inputs()) at(id).value = graph.add_input(old.value(id).name, old.type(id));
  }

  void run() {
    for (size_t i = 0; i < old_.values().size(); ++i) {
      const ValueInfo& info = old_.values()[i];
      if (info.kind == ValueKind::kState) values_[i] = read(info.index);
      if (info.kind == ValueKind::kConstant) values_[i].value = graph_.constant(info.index);
      if (info.kind == ValueKind::kNode && info.index == 0) copy(old_.node(info.producer));
    }
    for (const NamedValue& output : old_.outputs()) graph_.add_output(output.name, numbers(output.value));
    for (const StateUpdate& update : old_.updates()) add_update(update);
    graph_.set_origins({});
  }

 private:
  // A value of the old graph: numbers, or a cache as its parts.
  struct Written {
    Value value;
    QuantizedRows rows;
    bool is_cache() const { return static_cast<bool>(rows.quants); }
  };

  Written& at(ValueId id) { return values_[static_cast<size_t>(id.index)]; }

  Written read(int32_t state) {
    const auto found = scales_.find(state);
    if (found == scales_.end()) return {graph_.state(state), {}};
    return {{}, {graph_.state(state), graph_.state(found->second)}};
  }

  // Returns the value as numbers, those of all positions of a cache.
  Value numbers(ValueId id) {
    Written& written = at(id);
    if (!written.value) written.value = numbers_of(written.rows, old_.type(id).dtype);
    return written.value;
  }

  // Returns the value as parts of a cache.
  QuantizedRows rows(ValueId id) { return at(id).is_cache() ? at(id).rows : quantize_rows(at(id).value); }

  void copy(const Node& node) {
    graph_.set_origins(origins_of(node));
    const NameScope scope(graph_, node.name);
    if (!writes_cache(node) && !attends(node)) copy_numbers(node);
  }

  void copy_numbers(const Node& node) {
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(numbers(id));
    graph_.set_origins(node.origins);
    const std::vector<Value> outputs = graph_.add_node(*node.op, node.attributes, inputs, node.name);
    for (size_t k = 0; k < outputs.size(); ++k) at(node.outputs[k]).value = outputs[k];
  }

  // Slices of a cache and caches with new tokens are caches.
  bool writes_cache(const Node& node) {
    if (node.inputs.empty() || !at(node.inputs[0]).is_cache()) return false;
    const QuantizedRows whole = at(node.inputs[0]).rows;
    QuantizedRows& result = at(node.outputs[0]).rows;
    if (const auto slice = match<ops::DynamicSlice>(node); slice && slice->axis < 3) {
      const Value start = numbers(node.inputs[1]);
      result = {emit(slice.attributes, {whole.quants, start}), emit(slice.attributes, {whole.scales, start})};
      return true;
    }
    if (const auto update = match<ops::DynamicUpdateSlice>(node); update && update->axis < 3) {
      const QuantizedRows added = rows(node.inputs[1]);
      std::vector<Value> quants = {whole.quants, added.quants}, scales = {whole.scales, added.scales};
      for (size_t i = 2; i < node.inputs.size(); ++i)
        for (std::vector<Value>* part : {&quants, &scales}) part->push_back(numbers(node.inputs[i]));
      result = {emit(update.attributes, quants), emit(update.attributes, scales)};
      return true;
    }
    return false;
  }

  bool attends(const Node& node) {
    const auto attention = match<ops::Attention>(node);
    if (!attention || node.inputs.size() != 4 || node.outputs.size() != 1) return false;
    if (!attention->causal || !attention->has_key_length || attention->packed() ||
        attention->layout != AttentionLayout::kBTHD || old_.type(node.inputs[0]).dtype == DType::f64)
      return false;
    if (!at(node.inputs[1]).is_cache() || !at(node.inputs[2]).is_cache()) return false;
    at(node.outputs[0]).value =
        quantized_attention(numbers(node.inputs[0]), at(node.inputs[1]).rows, at(node.inputs[2]).rows,
                            numbers(node.inputs[3]), {attention->scale, attention->window});
    return true;
  }

  void add_update(const StateUpdate& update) {
    const auto found = scales_.find(update.state);
    if (found == scales_.end()) return graph_.add_update(update.state, numbers(update.value));
    const QuantizedRows parts = rows(update.value);
    graph_.add_update(update.state, parts.quants);
    graph_.add_update(found->second, parts.scales);
  }

  const Graph& old_;
  Graph& graph_;
  const std::map<int32_t, int32_t>& scales_;
  std::vector<Written> values_;  // by value of old_
};

Replacement round_keys(Rewriter& rewriter, const Node& node) {
  const auto attention = match<ops::Attention>(node);
  if (!attention || !attention->causal || attention->packed() || attention->has_key_length)
    return std::nullopt;
  std::vector<Value> inputs = rewriter.map(node.inputs);
  for (const size_t i : {1, 2}) inputs[i] = numbers_of(quantize_rows(inputs[i]), inputs[i].dtype());
  return emit_node(*node.op, node.attributes, inputs);
}

}  // namespace

bool has_quantized_cache(const Model& model) {
  return std::ranges::any_of(model.states(), [](const State& state) {
    return cache_layout(state).has_value() && state.type.dtype == DType::i8;
  });
}

std::unique_ptr<Model> with_quantized_cache(const Model& model) {
  if (has_quantized_cache(model)) fail("the model keeps its KV cache in 8 bits already");
  auto quantized = std::make_unique<Model>();
  const std::map<int32_t, int32_t> scales = add_tables(model, *quantized);
  if (scales.empty())
    fail(
        "the model declares no cache of keys and values (schema/graph/cache_layout.h), which alone can be in "
        "8 "
        "bits");
  quantized->describe_as(model);
  for (const auto& entry : model.entries())
    with_context([&] { QuantizedEntry(*entry, quantized->add_entry(entry->name()), scales).run(); },
                 [&] { return fmt::format("while entry point '{}' gets a cache in 8 bits", entry->name()); });
  return quantized;
}

std::unique_ptr<Model> with_rounded_keys(const Model& model) {
  auto rounded = std::make_unique<Model>(model);
  for (const auto& entry : model.entries())
    if (entry->updates().empty()) rounded->replace_entry(rewrite(rounded->entry(entry->name()), round_keys));
  return rounded;
}

}  // namespace genesis::passes
