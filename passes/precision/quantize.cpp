#include "passes/precision/quantize.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/name_patterns.h"
#include "passes/precision/product_weights.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"

namespace genesis::passes {
namespace {

// Describes how entry points read a state.
struct ReadAs {
  bool product = false, head = false, embedding = false, router = false;
};

bool is_product(const Node& node) {
  return is<ops::Linear, ops::Matmul, ops::GroupedMatmul, ops::LinearCrossEntropy>(node);
}

// Returns true for a layer whose results are not rounded: logits, or the numbers by which tokens choose their experts.
bool is_wide(const Node& node) {
  const auto layer = match<ops::Linear>(node);
  return layer && layer->wide;
}

// Returns, for each node, whether a product depends on its results.
std::vector<bool> before_products(const Graph& graph) {
  const Uses uses(graph);
  std::vector<bool> before(graph.nodes().size());
  for (size_t i = before.size(); i-- > 0;)
    for (const ValueId output : graph.nodes()[i].outputs)
      for (const NodeId reader : uses.readers(output))
        if (is_product(graph.node(reader)) || before[static_cast<size_t>(reader.index)]) before[i] = true;
  return before;
}

void add_uses(const Graph& graph, std::map<int32_t, ReadAs>& states) {
  const std::vector<bool> before = before_products(graph);
  for (size_t i = 0; i < before.size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (const ValueId weight : weights_of(node))
      if (const int32_t state = state_behind(graph, weight); state >= 0) {
        states[state].product = true;
        states[state].head |= !before[i];
        states[state].router |= before[i] && is_wide(node);
      }
    if (is<ops::Embedding>(node))
      if (const int32_t state = state_behind(graph, node.inputs[1]); state >= 0)
        states[state].embedding = true;
  }
}

// Returns the format for a state with these readers; empty if it stays as it is, with the reason in `why`.
std::optional<WeightFormat> format_for(const State& state, const ReadAs& read, const QuantizeOptions& options,
                                       std::string& why) {
  if (read.router) {
    why = "tokens choose their experts by its products";
    return std::nullopt;
  }
  const bool stays_table = read.embedding && !options.embedding, stays_head = read.head && !options.head;
  if (!stays_table && !stays_head)
    return matches_any(options.as_q8, state.name) ? WeightFormat::kQ8 : options.format;
  if (options.tables_as_q8) return WeightFormat::kQ8;
  why = stays_table ? "rows are looked up in it, and --quantize-embedding is not given"
                    : "the logits come from it, and --quantize-head is not given";
  return std::nullopt;
}

// Returns why the state cannot be encoded; empty if it can.
std::string why_kept(const State& state, const QuantizeOptions& options) {
  if (state.role != StateRole::kParameter)
    return fmt::format("it is no parameter but a {}", name_of(state.role));
  if (state.encoded) return fmt::format("it is kept as {} already", state.encoded.format->name);
  if (matches_any(options.keep, state.name)) return "its name is one of those that stay";
  if (state.type.shape.rank() != 2 && state.type.shape.rank() != 3) return "it is no matrix, nor several";
  if (state.type.dtype != DType::f32 && !is_low_precision(state.type.dtype))
    return fmt::format("it is {}", name_of(state.type.dtype));
  return "";
}

void check_not_trained(const Model& model, int32_t state) {
  for (const auto& entry : model.entries())
    for (const StateUpdate& update : entry->updates())
      if (update.state == state)
        fail(
            "entry point '{}' trains '{}', and no training can change quantized weights: quantize what "
            "`--inference` keeps of the model, or freeze its weights and train others beside them",
            entry->name(), model.state(state).name);
}

// Returns the states that products or lookups read, with the format of each. Adds to `report` those that stay as they are.
std::map<int32_t, WeightFormat> chosen(const Model& model, const QuantizeOptions& options,
                                       QuantizeReport& report) {
  std::map<int32_t, ReadAs> states;
  for (const auto& entry : model.entries()) add_uses(*entry, states);
  std::map<int32_t, WeightFormat> formats;
  for (const auto& [index, read] : states) {
    const State& state = model.state(index);
    if (!read.product && !(read.embedding && (options.embedding || options.tables_as_q8))) continue;
    std::string why = why_kept(state, options);
    const auto wanted = why.empty() ? format_for(state, read, options, why) : std::nullopt;
    if (wanted) why = quantized_format(*wanted, state.type.dtype).why_not(state.type).value_or("");
    if (!why.empty()) {
      report.kept.push_back({state.name, std::move(why)});
      continue;
    }
    check_not_trained(model, index);
    formats[index] = *wanted;
  }
  if (formats.empty())
    fail("there is nothing to quantize: {}",
         report.kept.empty() ? "no entry point multiplies with the transpose of a parameter"
                             : "'" + report.kept[0].name + "' stays, " + report.kept[0].reason);
  return formats;
}

}  // namespace

std::map<int32_t, WeightFormat> formats_to_quantize(const Model& model, const QuantizeOptions& options) {
  QuantizeReport unused;
  return chosen(model, options, unused);
}

QuantizeReport quantize(Model& model, const QuantizeOptions& options,
                        std::map<int32_t, EncodedValues> encoded) {
  QuantizeReport report;
  for (const auto& [index, wanted] : chosen(model, options, report)) {
    const State& state = model.state(index);
    if (wanted != options.format) report.in_q8.push_back(state.name);
    EncodedValues& values = encoded[index];
    if (!values)
      values = with_context(
          [&] { return encode_tensor(quantized_format(wanted, state.type.dtype), initial_value(state)); },
          [&] { return "in state '" + state.name + "'"; });
    report.quantized.push_back(state.name);
    report.bytes_before += state.type.bytes();
    for (const Tensor& part : values.parts) report.bytes_after += part.bytes();
  }
  for (auto& [index, values] : encoded) {
    model.set_trainable(index, false);
    model.set_encoded(index, std::move(values));
  }
  return report;
}

}  // namespace genesis::passes
