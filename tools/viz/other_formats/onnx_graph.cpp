#include "tools/viz/other_formats/onnx_graph.h"

#include <algorithm>
#include <unordered_map>

#include "tools/viz/other_formats/onnx_parameters.h"
#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::viz {
namespace {

using Kind = ShownValue::Kind;

// The values visible in a graph, by name. A body also sees the values of the graphs around it.
struct Scope {
  Scope* outer;
  OnnxPath path;  // names of the enclosing node and of this body
  std::unordered_map<std::string, int32_t> numbers = {};

  int32_t find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->outer)
      if (const auto at = scope->numbers.find(name); at != scope->numbers.end()) return at->second;
    return -1;
  }
};

// Returns the value of a Constant node, in whichever of its attributes it is.
OnnxTensor constant_of(const OnnxNode& node) {
  OnnxTensor tensor;
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.tensor) tensor = *attribute.tensor;
    const bool is_list = attribute.name.ends_with('s');
    if (attribute.name.starts_with("value_int"))
      tensor.type = i64_type(), tensor.integers = attribute.integers;
    if (attribute.name.starts_with("value_float"))
      tensor.type = onnx_element_type(1), tensor.reals = attribute.reals;
    if (attribute.name.starts_with("value_string")) tensor.type = onnx_element_type(8);
    if (attribute.integer && attribute.name == "value_int") tensor.integers = {*attribute.integer};
    if (attribute.real && attribute.name == "value_float") tensor.reals = {*attribute.real};
    if (!attribute.name.starts_with("value_")) continue;
    tensor.type.has_shape = true;
    if (is_list) tensor.type.shape = {std::to_string(std::max(tensor.integers.size(), tensor.reals.size()))};
    if (attribute.name == "value_strings") tensor.type.shape = {kUnknownDim};
  }
  if (!node.outputs.empty()) tensor.name = node.outputs[0];
  return tensor;
}

class Maker {
 public:
  explicit Maker(const OnnxFile& file) : file_(file), names_(file.graph) {}

  ShownGraph make() {
    Scope scope{nullptr, {}};
    const OnnxGraph& graph = file_.graph;
    add_tensors(graph, scope);
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      if (!scope.numbers.contains(graph.inputs[i]))  // otherwise it is an input with a default
        add_value(Kind::kInput, static_cast<int32_t>(i), graph.inputs[i], {said(graph, graph.inputs[i])},
                  &scope);
    add_nodes(graph, scope);
    for (const std::string& output : graph.outputs)
      if (const int32_t number = scope.find(output); number >= 0) shown_.outputs.emplace_back(output, number);
    for (size_t i = 0; i < shown_.values.size(); ++i) shown_.values[i].type = known_[i].type;
    return std::move(shown_);
  }

 private:
  static OnnxType said(const OnnxGraph& graph, const std::string& name) {
    const auto at = graph.types.find(name);
    return at == graph.types.end() ? OnnxType{} : at->second;
  }

  int32_t add_value(Kind kind, int32_t index, const std::string& name, OnnxValue known, Scope* scope) {
    const auto number = static_cast<int32_t>(shown_.values.size());
    shown_.values.push_back({kind, index, name, {}});
    known_.push_back(std::move(known));
    if (scope && !name.empty()) scope->numbers[name] = number;
    return number;
  }

  void add_constant(OnnxTensor tensor, Scope& scope) {
    const auto index = static_cast<int32_t>(shown_.tensors.size());
    add_value(Kind::kConstant, index, tensor.name, value_of(tensor), &scope);
    shown_.tensors.push_back(std::move(tensor));
  }

  void add_tensors(const OnnxGraph& graph, Scope& scope) {
    for (const OnnxTensor& tensor : graph.tensors) add_constant(tensor, scope);
  }

  // Returns the number of a value. A name without a producer becomes an input.
  int32_t number_of(const std::string& name, Scope& scope) {
    const int32_t number = scope.find(name);
    return number >= 0 ? number : add_value(Kind::kInput, -1, name, {}, &scope);
  }

  void add_nodes(const OnnxGraph& graph, Scope& scope) {
    for (const OnnxNode& node : graph.nodes) {
      const bool has_bodies =
          std::ranges::any_of(node.attributes, [](const auto& one) { return !one.graphs.empty(); });
      if (node.op == "Constant")
        add_constant(constant_of(node), scope);
      else if (has_bodies)
        add_with_bodies(node, graph, scope);
      else
        add_node(node, graph, scope);
    }
  }

  OnnxPath path_of(const OnnxNode& node, const Scope& scope) const {
    OnnxPath path = scope.path;
    const OnnxPath own = within(scope.path, names_.path_of(node));
    path.insert(path.end(), own.begin(), own.end());
    return path;
  }

  OnnxCall call_of(const OnnxNode& node, ShownNode& shown, Scope& scope) {
    OnnxCall call{.node = node,
                  .opset = file_.opset,
                  .inputs = {},
                  .outputs = std::vector<OnnxValue>(node.outputs.size())};
    std::vector<int32_t> numbers;
    for (const std::string& input : node.inputs)
      numbers.push_back(input.empty() ? -1 : number_of(input, scope));
    for (size_t i = 0; i < numbers.size(); ++i) {
      call.inputs.push_back(numbers[i] < 0 ? nullptr : &known_[static_cast<size_t>(numbers[i])]);
      if (numbers[i] < 0) continue;
      shown.inputs.push_back(numbers[i]);
      const ShownValue& value = shown_.values[static_cast<size_t>(numbers[i])];
      if (value.kind != Kind::kConstant) continue;
      const std::string text = onnx_values_text(shown_.tensors[static_cast<size_t>(value.index)]);
      if (!text.empty()) shown.attributes.emplace_back(onnx_input_name(node.op, i), text);
    }
    return call;
  }

  static ShownNode shown_node(const OnnxNode& node, OnnxPath path) {
    ShownNode shown{node.op, std::move(path), {}, {}, {}};
    for (const OnnxAttribute& attribute : node.attributes)
      shown.attributes.emplace_back(attribute.name, attribute.text);
    return shown;
  }

  void add_node(const OnnxNode& node, const OnnxGraph& graph, Scope& scope) {
    ShownNode shown = shown_node(node, path_of(node, scope));
    OnnxCall call = call_of(node, shown, scope);
    infer_outputs(call);
    add_outputs(node, graph, std::move(call.outputs), shown, scope);
  }

  void add_outputs(const OnnxNode& node, const OnnxGraph& graph, std::vector<OnnxValue> outputs,
                   ShownNode& shown, Scope& scope) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      outputs[i].type = merged(said(graph, node.outputs[i]), outputs[i].type);
      shown.outputs.push_back(add_value(Kind::kResult, -1, node.outputs[i], std::move(outputs[i]), &scope));
    }
    shown_.nodes.push_back(std::move(shown));
  }

  // Adds a node and its bodies. The nodes of the bodies are in the scope of the node, which reads the results of the
  // bodies.
  void add_with_bodies(const OnnxNode& node, const OnnxGraph& graph, Scope& scope) {
    const OnnxPath path = path_of(node, scope);
    OnnxPath own = path;
    own.push_back(node.op);
    ShownNode shown = shown_node(node, own);
    OnnxCall call = call_of(node, shown, scope);
    std::vector<OnnxValue> inputs;
    for (const OnnxValue* input : call.inputs) inputs.push_back(input ? *input : OnnxValue{});
    std::vector<OnnxValue> outputs(node.outputs.size());
    bool is_first = true;
    for (const OnnxAttribute& attribute : node.attributes)
      for (size_t i = 0; i < attribute.graphs.size(); ++i) {
        Scope inner{&scope, path};
        inner.path.push_back(attribute.graphs.size() == 1 ? attribute.name
                                                          : attribute.name + "_" + std::to_string(i));
        const std::vector<int32_t> results = add_body(node, *attribute.graphs[i], inputs, inner);
        shown.inputs.insert(shown.inputs.end(), results.begin(), results.end());
        join_results(node, inputs, results, is_first, outputs);
        is_first = false;
      }
    add_outputs(node, graph, std::move(outputs), shown, scope);
  }

  std::vector<int32_t> add_body(const OnnxNode& node, const OnnxGraph& body,
                                const std::vector<OnnxValue>& inputs, Scope& scope) {
    add_tensors(body, scope);
    if (!body.inputs.empty()) add_body_inputs(node, body, inputs, scope);
    add_nodes(body, scope);
    std::vector<int32_t> results;
    for (const std::string& output : body.outputs) {
      results.push_back(number_of(output, scope));
      OnnxType& type = known_[static_cast<size_t>(results.back())].type;
      type = merged(type, said(body, output));
    }
    return results;
  }

  // Adds a node whose results are the inputs of a body. It reads the values with which the first iteration begins.
  void add_body_inputs(const OnnxNode& node, const OnnxGraph& body, const std::vector<OnnxValue>& inputs,
                       Scope& scope) {
    OnnxPath path = scope.path;
    path.emplace_back("inputs");
    ShownNode shown{"body inputs", path, {}, {}, {}};
    for (const std::string& input : node.inputs)
      if (!input.empty()) shown.inputs.push_back(number_of(input, *scope.outer));
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      OnnxType first;
      if (i < inputs.size()) first.dtype = inputs[i].type.dtype, first.bits = inputs[i].type.bits;
      if (node.op == "Loop" && i == 0) first = i64_type(), first.has_shape = true;
      if (node.op == "Loop" && i == 1) first = bool_type(), first.has_shape = true;
      const OnnxValue known{merged(said(body, body.inputs[i]), first), {}, {}};
      shown.outputs.push_back(add_value(Kind::kResult, -1, body.inputs[i], known, &scope));
    }
    shown_.nodes.push_back(std::move(shown));
  }

  // Derives the outputs' types from the bodies' results. A result of If comes from either body. The results of Loop
  // are the carried values, then the stacked results of all iterations; its body's first result is the loop
  // condition. Other operators are unknown.
  void join_results(const OnnxNode& node, const std::vector<OnnxValue>& inputs,
                    const std::vector<int32_t>& results, bool is_first,
                    std::vector<OnnxValue>& outputs) const {
    const auto type_of = [&](size_t i) { return known_[static_cast<size_t>(results[i])].type; };
    const bool is_loop = node.op == "Loop";
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t at = is_loop ? i + 1 : i;
      if (at >= results.size() || (!is_loop && node.op != "If")) return;
      if (!is_loop) {
        outputs[i].type = is_first ? type_of(at) : common(outputs[i].type, type_of(at));
      } else if (i + 2 < inputs.size()) {
        outputs[i].type = common(inputs[i + 2].type, type_of(at));
      } else {
        outputs[i].type = type_of(at);
        outputs[i].type.shape.insert(outputs[i].type.shape.begin(), kUnknownDim);
      }
    }
  }

  const OnnxFile& file_;
  const OnnxNames names_;
  ShownGraph shown_;
  std::deque<OnnxValue> known_;  // by value; OnnxCall points into it
};

}  // namespace

ShownGraph shown_graph(const OnnxFile& file) { return Maker(file).make(); }

}  // namespace genesis::viz
