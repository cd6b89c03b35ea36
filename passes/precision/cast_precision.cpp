#include "passes/precision/cast_precision.h"

#include <algorithm>
#include <set>

#include "passes/precision/precision_caster.h"
#include "schema/core/parallel.h"
#include "schema/core/type_limits.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/graph/state_storage.h"

namespace genesis::passes {
namespace {

template <class T>
Tensor converted(const Tensor& tensor, DType low) {
  std::byte* data;
  Tensor result = Tensor::uninitialized({low, tensor.type().shape}, &data);
  const auto from = tensor.as<float>();
  auto* to = reinterpret_cast<T*>(data);
  in_parallel(tensor.numel(), 1 << 20, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = T(from[static_cast<size_t>(i)]);
  });
  return result;
}

Tensor low_tensor(const Tensor& tensor, DType low) {
  if (tensor.empty_handle() || tensor.type().dtype != DType::f32) return tensor;
  return low == DType::bf16 ? converted<bf16>(tensor, low) : converted<f16>(tensor, low);
}

// Returns the state with its values rounded to `low`. If it is encoded, its parts stay and now stand for values of that type.
State low_state(const State& state, DType low) {
  if (state.type.dtype != DType::f32) return state;
  State result = state;
  result.type.dtype = low;
  result.initial = low_tensor(state.initial, low);
  if (auto& format = result.encoded.format) format = &quantized_format(weight_format_of(*format), low);
  if (low == DType::f16 && (state.encoded || !state.initial.empty_handle()))
    with_context([&] { check_f16_range(initial_value(state), initial_value(result), "cast to bf16"); },
                 [&] { return "in weight '" + state.name + "'"; });
  return result;
}

// Holds the states and constants that nodes kept in f32 read.
struct KeptRows {
  std::set<int32_t> states, tensors;
};

KeptRows kept_rows(const Model& model, const std::vector<std::string>& keep_f32) {
  KeptRows rows;
  for (const auto& entry : model.entries())
    for (const Node& node : entry->nodes()) {
      if (!keeps_f32(node, keep_f32)) continue;
      for (ValueId id : node.inputs) {
        const ValueInfo& info = entry->value(id);
        if (info.kind == ValueKind::kState) rows.states.insert(info.index);
        if (info.kind == ValueKind::kConstant) rows.tensors.insert(info.index);
      }
    }
  return rows;
}

void add_tables(const Model& model, Model& result, DType low, const KeptRows& kept) {
  int32_t tensor = 0, index = 0;
  for (const NamedTensor& row : model.tensors())
    result.add_tensor(row.name, kept.tensors.contains(tensor++) || stays_f32(row.tensor, low)
                                    ? row.tensor
                                    : low_tensor(row.tensor, low));
  for (const State& state : model.states())
    result.add_state(kept.states.contains(index++) ? state : low_state(state, low));
}

void check_no_training(const Model& model) {
  for (const auto& entry : model.entries())
    for (const StateUpdate& update : entry->updates())
      if (model.state(update.state).role == StateRole::kParameter)
        fail("entry point '{}' trains '{}': remove it before casting to low precision", entry->name(),
             model.state(update.state).name);
}

bool names_a_node(const Graph& graph, const std::string& pattern) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) { return keeps_f32(node, {pattern}); });
}

[[noreturn]] void fail_pattern(const std::string& pattern) {
  fail("no node is named '{}', which should stay f32: `genesis-opt FILE --text` shows the names", pattern);
}

// Checks that each pattern matches a node of some entry point.
void check_keep_f32(const Model& model, const std::vector<std::string>& keep_f32) {
  for (const std::string& pattern : keep_f32)
    if (std::ranges::none_of(model.entries(),
                             [&](const auto& entry) { return names_a_node(*entry, pattern); }))
      fail_pattern(pattern);
}

}  // namespace

std::unique_ptr<Model> cast_precision(const Model& model, DType low,
                                      const std::vector<std::string>& keep_f32) {
  if (!is_low_precision(low)) fail("cannot cast a model to {}: expected bf16 or f16", name_of(low));
  check_no_training(model);
  check_keep_f32(model, keep_f32);
  auto result = std::make_unique<Model>();
  result->describe_as(model);
  result->metadata["precision"] = name_of(low);
  add_tables(model, *result, low, kept_rows(model, keep_f32));
  for (const auto& entry : model.entries())
    with_context(
        [&] { PrecisionCaster(*entry, result->add_entry(entry->name()), low, keep_f32).run(); },
        [&] { return "while casting entry point '" + entry->name() + "' to " + std::string(name_of(low)); });
  return result;
}

Graph mixed_precision(const Graph& graph, DType low, const std::vector<std::string>& keep_f32) {
  if (!is_low_precision(low)) fail("cannot compute in {}: expected bf16 or f16", name_of(low));
  Graph result(graph.model(), graph.name());
  with_context(
      [&] { PrecisionCaster(graph, result, low, keep_f32).run(); },
      [&] { return "while casting entry point '" + graph.name() + "' to " + std::string(name_of(low)); });
  return result;
}

void check_keep_f32(const Graph& graph, const std::vector<std::string>& keep_f32) {
  for (const std::string& pattern : keep_f32)
    if (!names_a_node(graph, pattern)) fail_pattern(pattern);
}

}  // namespace genesis::passes
