#include "models/formats/onnx/export/export.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "models/formats/onnx/export/rules.h"
#include "models/formats/operator_table.h"
#include "passes/fusion/elementwise/expand_formulas.h"
#include "passes/training/for_evaluation.h"
#include "schema/core/error.h"
#include "schema/graph/bodies.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/recurrent.h"
#include "schema/ops/tensor/loop.h"
#include "schema/version.h"

namespace genesis::models::onnx {
namespace {

bool is_updated(const Graph& graph, int32_t state) {
  return std::ranges::any_of(graph.updates(),
                             [&](const StateUpdate& update) { return update.state == state; });
}

// Returns the graph with formulas in the place of ops without a rule, such as those of plugins.
Graph with_formulas(const Graph& graph) {
  if (!passes::has_formulas(graph, {})) return graph.share();
  return passes::write_formulas(graph,
                                [](const Graph&, const Node& node) { return !find_rule(node.op->name()); });
}

// Ops without a rule, with the names of their nodes.
using UnknownOps = std::map<std::string, std::vector<std::string>>;

void collect_unknown(const Graph& graph, UnknownOps& unknown) {
  for (const Node& node : graph.nodes())
    if (!find_rule(node.op->name()) && !is<ops::Loop>(*node.op))
      unknown[std::string(node.op->name())].push_back(node.authored_name());
}

// Returns the names of all bodies of loops of the graph.
std::set<std::string> all_bodies(const Graph& graph) {
  const std::vector<std::string> bodies = bodies_of(graph);
  return with_bodies(graph.model(), {bodies.begin(), bodies.end()});
}

void check_ops(const Graph& graph) {
  UnknownOps unknown;
  collect_unknown(graph, unknown);
  for (const std::string& name : all_bodies(graph))
    collect_unknown(with_formulas(graph.model().entry(name)), unknown);
  if (unknown.empty()) return;
  std::vector<std::string> lines;
  for (auto& [op, nodes] : unknown) {
    const size_t count = nodes.size();
    if (count > 3) nodes.resize(3), nodes.emplace_back("...");
    lines.push_back(fmt::format("{} ({}x: {})", op, count, fmt::join(nodes, ", ")));
  }
  fail("the entry point '{}' has ops that are not written as ONNX: {}", graph.name(), fmt::join(lines, "; "));
}

// Returns whether something reads the state: a program may name states that it never reads, such as counts of batches.
bool is_read(const Graph& graph, ValueId id) {
  const auto reads = [&](const Node& node) {
    return std::ranges::find(node.inputs, id) != node.inputs.end();
  };
  const auto gives = [&](const auto& output) { return output.value == id; };
  return is_updated(graph, graph.value(id).index) || std::ranges::any_of(graph.outputs(), gives) ||
         std::ranges::any_of(graph.updates(), gives) || std::ranges::any_of(graph.nodes(), reads);
}

class Exporter {
 public:
  explicit Exporter(const Graph& graph) : graph_(graph), e_(graph, names_of_inputs(graph)) {
    for (const NamedValue& output : graph.outputs()) {
      e_.reserve(output.name);
      output_names_.push_back(output.name);
    }
  }

  OnnxModelRecord make() {
    check_ops(graph_);
    for (size_t i = 0; i < graph_.values().size(); ++i) declare(ValueId{static_cast<int32_t>(i)});
    declare_states_of_bodies();
    translate_nodes();
    for (size_t i = 0; i < output_names_.size(); ++i) add_output(output_names_[i], graph_.outputs()[i].value);
    for (const StateUpdate& update : graph_.updates())
      add_output(graph_.model().state(update.state).name + ".updated", update.value);
    OnnxModelRecord record = std::move(e_.record());
    record.graph_name = graph_.name(), record.producer_version = kVersion;
    record.opset = kExportedOpset, record.ir_version = kExportedIrVersion;
    for (const auto& [key, text] : graph_.model().metadata)
      record.metadata.emplace_back("genesis." + key, text);
    return record;
  }

 private:
  static std::map<ValueId, std::string> names_of_inputs(const Graph& graph) {
    std::map<ValueId, std::string> names;
    for (const ValueId id : graph.inputs()) names[id] = graph.value(id).name;
    return names;
  }

  // The body of a loop: `inputs` are its number, the carried values, and the values of the graph around it that it reads.
  Exporter(const Graph& body, const std::vector<Out>& inputs, Exporter& outer)
      : graph_(body), outer_(&outer), e_(body, names_of(body, inputs), outer.e_) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[body.inputs()[i]] = inputs[i];
    for (const NamedValue& output : body.outputs()) output_names_.push_back(e_.unique(output.name));
  }

  static std::map<ValueId, std::string> names_of(const Graph& body, const std::vector<Out>& inputs) {
    std::map<ValueId, std::string> names;
    for (size_t i = 0; i < inputs.size(); ++i) names[body.inputs()[i]] = inputs[i].name;
    return names;
  }

  // The first `own` inputs are those of the ONNX graph, behind whose number it has a condition that nothing reads.
  OnnxGraphRecord make_body(size_t own) {
    for (size_t i = 0; i < graph_.values().size(); ++i) declare(ValueId{static_cast<int32_t>(i)});
    translate_nodes();
    for (size_t i = 0; i < output_names_.size(); ++i) add_output(output_names_[i], graph_.outputs()[i].value);
    OnnxGraphRecord record{.name = graph_.name(),
                           .nodes = std::move(e_.record().nodes),
                           .inputs = {},
                           .outputs = e_.record().outputs};
    for (size_t i = 0; i < own; ++i) {
      const ValueId id = graph_.inputs()[i];
      record.inputs.emplace_back(values_.at(id).name, graph_.type(id));
      if (i == 0) record.inputs.emplace_back(e_.unique("condition"), TensorType{DType::boolean, {}});
    }
    return record;
  }

  void translate_nodes() {
    for (const Node& node : graph_.nodes())
      with_context(
          [&] { translate(node); },
          [&] { return fmt::format("in the node '{}' ({})", node.authored_name(), node.op->name()); });
  }

  // Makes the ONNX value of an input, a state or a constant.
  void declare(ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (info.kind == ValueKind::kInput && !outer_) {
      values_[id] = {info.name, info.type.dtype};
      e_.record().inputs.emplace_back(info.name, info.type);
    } else if (info.kind == ValueKind::kState) {
      if (is_read(graph_, id)) values_[id] = state(info.index);
    } else if (info.kind == ValueKind::kConstant) {
      values_[id] = constant(info.index);
    }
  }

  // States that only bodies read get their names before nodes can take these.
  void declare_states_of_bodies() {
    for (const std::string& name : all_bodies(graph_)) {
      const Graph& body = graph_.model().entry(name);
      for (size_t i = 0; i < body.values().size(); ++i) {
        const ValueId id{static_cast<int32_t>(i)};
        if (body.value(id).kind == ValueKind::kState && is_read(body, id)) state(body.value(id).index);
      }
    }
  }

  // States and constants belong to the ONNX graph around all bodies.
  Out state(int32_t index) {
    if (outer_) return outer_->state(index);
    const auto known = states_.find(index);
    return known != states_.end() ? known->second : states_[index] = declared_state(index);
  }
  Out constant(int32_t index) {
    if (outer_) return outer_->constant(index);
    const auto known = constants_.find(index);
    if (known != constants_.end()) return known->second;
    const NamedTensor& tensor = graph_.model().tensors()[static_cast<size_t>(index)];
    return constants_[index] = e_.constant(tensor.name, tensor.tensor);
  }

  Out declared_state(int32_t index) {
    const State& state = graph_.model().state(index);
    if (!is_updated(graph_, index) && state.role != StateRole::kCache)
      return e_.constant(state.name, initial_value(state));
    const Out input{e_.unique(state.name), state.type.dtype};
    e_.record().inputs.emplace_back(input.name, state.type);
    return input;
  }

  std::vector<Out> outs_of(const Node& node) const {
    std::vector<Out> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(values_.at(id));
    return inputs;
  }

  // Returns true for a plain linear whose result is the first input of a recurrent layer, and nothing else.
  bool is_part_of_layer(const Node& node) const {
    if (!is<ops::Linear>(*node.op)) return false;
    if (!(node.attributes == to_attributes(ops::Linear{})) || node.outputs.size() != 1) return false;
    const ValueId result = node.outputs[0];
    const auto gives = [&](const auto& output) { return output.value == result; };
    int64_t reads = 0, firsts = 0;
    for (const Node& other : graph_.nodes()) {
      reads += std::ranges::count(other.inputs, result);
      firsts += is<ops::Recurrent>(*other.op) && other.inputs[0] == result ? 1 : 0;
    }
    return reads == 1 && firsts == 1 && std::ranges::none_of(graph_.outputs(), gives) &&
           std::ranges::none_of(graph_.updates(), gives);
  }

  void translate(const Node& node) {
    e_.begin(node.name);
    if (is<ops::Loop>(*node.op)) return translate_loop(node);
    if (is_part_of_layer(node)) {  // the recurrent layer that reads it writes it
      values_[node.outputs[0]] = {};
      return;
    }
    std::vector<Out> product;
    if (is<ops::Recurrent>(*node.op) && values_.at(node.inputs[0]).name.empty())
      product = outs_of(graph_.node(graph_.value(node.inputs[0]).producer));
    Translation translation(e_, graph_, node, outs_of(node), std::move(product));
    const std::vector<Out> results = find_rule(node.op->name())->translate(translation);
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i)
      name_result(node.outputs[i], results[i]);
  }

  // A Loop of ONNX gives as many rows as there were steps. Behind them come the rows that our loop leaves as they came.
  void translate_loop(const Node& node) {
    const auto loop = from_attributes<ops::Loop>(node.attributes);
    const std::vector<Out> operands = outs_of(node);
    const auto first = operands.begin() + 2, rows = first + loop.carried, read = rows + loop.collected;
    std::vector<Out> given = {operands[1], operands[0]}, inside;
    given.insert(given.end(), first, rows);
    inside.push_back({e_.unique("number"), DType::i64});
    for (auto carried = first; carried != rows; ++carried)
      inside.push_back({e_.unique("carried"), carried->dtype});
    inside.insert(inside.end(), read, operands.end());
    const Graph body = with_formulas(graph_.model().entry(loop.entry));
    const OnnxGraphRecord record =
        Exporter(body, inside, *this).make_body(static_cast<size_t>(loop.carried) + 1);
    std::vector<DType> dtypes;
    for (auto carried = first; carried != read; ++carried) dtypes.push_back(carried->dtype);
    std::vector<Out> results = e_.add_several("Loop", given, onnx_attribute("body", record), dtypes);
    for (auto i = static_cast<size_t>(loop.carried); i < dtypes.size(); ++i) {
      const Out count = e_.add("Shape", {results[i]}, onnx_attribute("end", int64_t{1}), DType::i64);
      if (results.size() == dtypes.size()) results.push_back(e_.add("Squeeze", {count, e_.integers({0})}));
      const Out rest =
          e_.slice(operands[i + 2], 0, count, e_.integers({std::numeric_limits<int64_t>::max()}));
      results[i] = e_.add("Concat", {results[i], rest}, onnx_attribute("axis", int64_t{0}));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) name_result(node.outputs[i], results[i]);
  }

  // A value is named like the output of the graph that it is, and else like the node.
  void name_result(ValueId id, const Out& result) {
    const auto output =
        std::ranges::find_if(graph_.outputs(), [&](const NamedValue& one) { return one.value == id; });
    const std::string name = output != graph_.outputs().end()
                                 ? output_names_[static_cast<size_t>(output - graph_.outputs().begin())]
                                 : e_.unique(graph_.value(id).name);
    values_[id] = e_.rename(result.name, name) ? Out{name, result.dtype} : result;
  }

  void add_output(const std::string& name, ValueId id) {
    const Out& value = values_.at(id);
    e_.record().outputs.emplace_back(name, graph_.type(id));
    if (value.name == name) return;
    e_.begin(name);
    const Out copy = e_.add("Identity", {value});
    e_.rename(copy.name, name);
  }

  const Graph& graph_;
  Exporter* const outer_ = nullptr;  // null unless the graph is a body
  Emitter e_;
  std::vector<std::string> output_names_;
  std::map<ValueId, Out> values_;
  std::map<int32_t, Out> states_, constants_;  // by their indices in the model
};

}  // namespace

const OpRule* find_rule(std::string_view op) {
  static const OperatorTable<OpRule> kTable = {
      &elementwise_rules(),         &tensor_rules(),   &index_rules(), &reduction_rules(), &product_rules(),
      &attention_rules_of_export(), &recurrent_rules()};
  return kTable.find(op);
}

namespace {

OnnxModelRecord record_of(const Graph& graph) { return Exporter(with_formulas(graph)).make(); }

}  // namespace

OnnxModelRecord export_record(const Model& model, const std::string& entry) {
  return record_of(passes::for_evaluation(model.entry(entry)).graph);
}

Exported export_model(const Model& model, const std::filesystem::path& path, const ExportOptions& options) {
  const passes::ForEvaluation form = passes::for_evaluation(model.entry(options.entry));
  const OnnxModelRecord record = record_of(form.graph);
  Exported exported{.batch_norms = form.batch_norms, .dropouts = form.dropouts};
  exported.nodes = static_cast<int64_t>(record.nodes.size());
  for (const State& state : model.states())
    if (state.role == StateRole::kParameter) exported.parameters += state.type.numel();
  exported.files = write_onnx(record, path, options.most_inside);
  return exported;
}

}  // namespace genesis::models::onnx
