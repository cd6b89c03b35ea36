#include "models/formats/onnx/export/export.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/formats/onnx/export/rules.h"
#include "models/formats/operator_table.h"
#include "passes/fusion/elementwise/expand_formulas.h"
#include "passes/training/for_evaluation.h"
#include "schema/core/error.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/recurrent.h"
#include "schema/version.h"

namespace genesis::models::onnx {
namespace {

bool is_updated(const Graph& graph, int32_t state) {
  return std::ranges::any_of(graph.updates(),
                             [&](const StateUpdate& update) { return update.state == state; });
}

class Exporter {
 public:
  explicit Exporter(const Graph& graph) : graph_(graph), e_(graph, names_of_inputs(graph)) {
    for (const NamedValue& output : graph.outputs()) e_.reserve(output.name);
  }

  OnnxModelRecord make() {
    check_ops();
    for (size_t i = 0; i < graph_.values().size(); ++i) declare(ValueId{static_cast<int32_t>(i)});
    for (const Node& node : graph_.nodes())
      with_context(
          [&] { translate(node); },
          [&] { return fmt::format("in the node '{}' ({})", node.authored_name(), node.op->name()); });
    for (const NamedValue& output : graph_.outputs()) add_output(output.name, output.value);
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

  void check_ops() const {
    std::map<std::string, std::vector<std::string>> unknown;
    for (const Node& node : graph_.nodes())
      if (!find_rule(node.op->name())) unknown[std::string(node.op->name())].push_back(node.authored_name());
    if (unknown.empty()) return;
    std::vector<std::string> lines;
    for (auto& [op, nodes] : unknown) {
      const size_t count = nodes.size();
      if (count > 3) nodes.resize(3), nodes.emplace_back("...");
      lines.push_back(fmt::format("{} ({}x: {})", op, count, fmt::join(nodes, ", ")));
    }
    fail("the entry point '{}' has ops that are not written as ONNX: {}", graph_.name(),
         fmt::join(lines, "; "));
  }

  // Makes the ONNX value of an input, a state or a constant.
  void declare(ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (info.kind == ValueKind::kInput) {
      values_[id] = {info.name, info.type.dtype};
      e_.record().inputs.emplace_back(info.name, info.type);
    } else if (info.kind == ValueKind::kState) {
      if (is_read(id)) declare_state(id, info);
    } else if (info.kind == ValueKind::kConstant) {
      const NamedTensor& tensor = graph_.model().tensors()[static_cast<size_t>(info.index)];
      values_[id] = e_.constant(tensor.name, tensor.tensor);
    }
  }

  // A program may name states that it never reads, such as counts of batches.
  bool is_read(ValueId id) const {
    const auto reads = [&](const Node& node) {
      return std::ranges::find(node.inputs, id) != node.inputs.end();
    };
    const auto gives = [&](const auto& output) { return output.value == id; };
    const int32_t state = graph_.value(id).index;
    return is_updated(graph_, state) || std::ranges::any_of(graph_.outputs(), gives) ||
           std::ranges::any_of(graph_.updates(), gives) || std::ranges::any_of(graph_.nodes(), reads);
  }

  void declare_state(ValueId id, const ValueInfo& info) {
    const State& state = graph_.model().state(info.index);
    if (!is_updated(graph_, info.index) && state.role != StateRole::kCache) {
      values_[id] = e_.constant(state.name, initial_value(state));
      return;
    }
    values_[id] = {e_.unique(state.name), info.type.dtype};
    e_.record().inputs.emplace_back(values_[id].name, info.type);
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

  // A value is named like the output of the graph that it is, and else like the node.
  void name_result(ValueId id, const Out& result) {
    const auto output =
        std::ranges::find_if(graph_.outputs(), [&](const NamedValue& one) { return one.value == id; });
    const std::string name =
        output != graph_.outputs().end() ? output->name : e_.unique(graph_.value(id).name);
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
  Emitter e_;
  std::map<ValueId, Out> values_;
};

}  // namespace

const OpRule* find_rule(std::string_view op) {
  static const OperatorTable<OpRule> kTable = {
      &elementwise_rules(),         &tensor_rules(),   &index_rules(), &reduction_rules(), &product_rules(),
      &attention_rules_of_export(), &recurrent_rules()};
  return kTable.find(op);
}

namespace {

// Writes a graph in which ops without a rule, such as those of plugins, have become their formulas.
OnnxModelRecord record_of(const Graph& graph) {
  if (!passes::has_formulas(graph, {})) return Exporter(graph).make();
  return Exporter(passes::write_formulas(
                      graph, [](const Graph&, const Node& node) { return !find_rule(node.op->name()); }))
      .make();
}

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
