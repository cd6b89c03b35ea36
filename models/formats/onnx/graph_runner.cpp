#include "models/formats/onnx/graph_runner.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/formats/bounded_sizes.h"
#include "models/formats/onnx/element_types.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"

namespace genesis::models::onnx {
namespace {

constexpr int kDeepest = 64;           // functions and bodies within one another
constexpr int64_t kMaxNodes = 200000;  // nodes after functions are inlined and loops are unrolled

std::string domain_of(const std::string& op) {
  const size_t end = op.find("::");
  return end == std::string::npos ? "ai.onnx" : op.substr(0, end);
}

// Returns the node with the values of a function's attributes in place of references to them.
OnnxNode with_attributes(const OnnxNode& node, const std::map<std::string, OnnxAttribute>& given) {
  OnnxNode own = node;
  own.attributes.clear();
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.reference.empty()) {
      own.attributes.push_back(attribute);
      continue;
    }
    const auto value = given.find(attribute.reference);
    if (value == given.end()) continue;  // an optional attribute that the call leaves out
    own.attributes.push_back(value->second);
    own.attributes.back().name = attribute.name;
  }
  return own;
}

// Returns the module of a node: "model.layers.0" for "/model/layers.0/MatMul".
std::string module_of(const OnnxNode& node) {
  if (!node.scope.empty()) return node.scope;
  std::string path = node.name;
  const size_t end = path.rfind('/');
  if (end == std::string::npos) return "";
  path = path.substr(0, end);
  std::ranges::replace(path, '/', '.');
  const size_t begin = path.find_first_not_of('.');
  return begin == std::string::npos ? "" : path.substr(begin);
}

// A Constant node of the main graph whose tensor holds several reals is a weight, as an initializer is: PaddlePaddle and others write
// weights this way. Single numbers belong to formulas, such as those of activations.
void keep_weight(const OnnxNode& node, Item& item) {
  if (!node.attribute("value") || !item.tensor || !is_float(item.tensor->dtype())) return;
  if (item.tensor->numel() <= 1 && item.tensor->rank() <= 1) return;
  item.name = node.outputs[0];
  item.is_parameter = true;
}

}  // namespace

GraphRunner::GraphRunner(const OnnxFile& file, Environment& environment)
    : file_(&file), environment_(&environment) {
  environment.run_body = [this](const OnnxGraph& body, const std::vector<ItemPtr>& inputs) {
    return run_graph(body, inputs, frame_);
  };
}

const OnnxFunction* GraphRunner::find_function(const std::string& op) const {
  for (const OnnxFunction& function : file_->functions)
    if (function.op == op) return &function;
  return nullptr;
}

int64_t GraphRunner::version_of(const std::string& op, const Frame& frame) const {
  const std::string domain = domain_of(op);
  const auto own = frame.opsets->find(domain);
  if (own != frame.opsets->end()) return own->second;
  const auto known = file_->opsets.find(domain);
  return known == file_->opsets.end() ? 1 : known->second;
}

void GraphRunner::collect_unknown(const std::vector<OnnxNode>& nodes,
                                  const std::map<std::string, int64_t>& opsets,
                                  std::map<std::string, std::vector<std::string>>& unknown) const {
  Frame frame;
  frame.opsets = &opsets;
  for (const OnnxNode& node : nodes) {
    const Operator* operation = find_operator(node.op);
    const int64_t version = version_of(node.op, frame);
    if (!find_function(node.op) && (!operation || version < operation->since))
      unknown[operation ? fmt::format("{} of version {}", node.op, version) : node.op].push_back(
          node.name.empty() ? "a node without a name" : node.name);
    for (const OnnxAttribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) collect_unknown(body->nodes, opsets, unknown);
  }
}

void GraphRunner::check_operators_are_known() const {
  std::map<std::string, std::vector<std::string>> unknown;
  collect_unknown(file_->graph.nodes, file_->opsets, unknown);
  for (const OnnxFunction& function : file_->functions)
    collect_unknown(function.nodes, function.opsets, unknown);
  if (unknown.empty()) return;
  std::vector<std::string> lines;
  for (auto& [op, names] : unknown) {
    const size_t count = names.size();
    if (count > 3) names.resize(3), names.emplace_back("...");
    lines.push_back(fmt::format("{} ({}x: {})", op, count, fmt::join(names, ", ")));
  }
  fail("the model has operators that are not read: {}", fmt::join(lines, "; "));
}

std::vector<ItemPtr> GraphRunner::run_main(const std::vector<ItemPtr>& inputs) {
  return run_graph(file_->graph, inputs, nullptr);
}

ItemPtr GraphRunner::item_of_initializer(const OnnxTensor& tensor) {
  ItemPtr& known = initializers_[&tensor];
  if (known) return known;
  auto item = std::make_shared<Item>();
  item->tensor = onnx_tensor_values(tensor, environment_->owner, *environment_->external);
  item->element = static_cast<OnnxElement>(tensor.type.element);
  item->name = tensor.name;
  item->is_parameter = is_float(item->tensor->dtype()) && item->tensor->rank() > 0;
  return known = item;
}

std::vector<ItemPtr> GraphRunner::run_graph(const OnnxGraph& graph, const std::vector<ItemPtr>& inputs,
                                            const Frame* outer) {
  if (++depth_ > kDeepest) fail("bodies and functions nest deeper than {}", kDeepest);
  Frame frame;
  frame.outer = outer;
  frame.opsets = outer ? outer->opsets : &file_->opsets;
  frame.attributes = outer ? outer->attributes : nullptr;
  for (const OnnxTensor& tensor : graph.tensors) frame.names[tensor.name] = item_of_initializer(tensor);
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i)
    if (inputs[i]) frame.names[graph.inputs[i]] = inputs[i];
  for (const OnnxNode& node : graph.nodes) run_node(node, frame);
  std::vector<ItemPtr> outputs;
  for (const std::string& name : graph.outputs) {
    outputs.push_back(find(name, frame));
    if (!outputs.back()) fail("output {} of a graph has no value", outputs.size() - 1);
  }
  --depth_;
  return outputs;
}

std::vector<ItemPtr> GraphRunner::run_function(const OnnxFunction& function, const OnnxNode& node,
                                               const std::vector<ItemPtr>& inputs) {
  if (++depth_ > kDeepest) fail("functions nest deeper than {}, or call themselves", kDeepest);
  std::map<std::string, OnnxAttribute> attributes;
  for (const OnnxAttribute& attribute : function.defaults) attributes[attribute.name] = attribute;
  for (const OnnxAttribute& attribute : node.attributes) attributes[attribute.name] = attribute;
  Frame frame;
  frame.opsets = &function.opsets;
  frame.attributes = &attributes;
  for (size_t i = 0; i < function.inputs.size(); ++i)
    frame.names[function.inputs[i]] = i < inputs.size() ? inputs[i] : nullptr;
  for (const OnnxNode& inner : function.nodes) run_node(inner, frame);
  std::vector<ItemPtr> outputs;
  for (const std::string& name : function.outputs) outputs.push_back(find(name, frame));
  --depth_;
  return outputs;
}

// Returns null for an empty name, which stands for an optional input that is not given.
ItemPtr GraphRunner::find(const std::string& name, const Frame& frame) const {
  if (name.empty()) return nullptr;
  for (const Frame* at = &frame; at; at = at->outer) {
    const auto known = at->names.find(name);
    if (known != at->names.end()) return known->second;
  }
  fail("the value '{}' is read, and nothing before makes it", name);
}

namespace {

// Translates a call. One that fails on a size that depends on data may be translated for given values of the inputs.
Results translated(const Operator& operation, Call& call) {
  try {
    return operation.translate(call);
  } catch (const NeedsValue&) {
    throw;
  } catch (const Error& problem) {
    for (size_t i = 0; i < call.count(); ++i) {
      if (!call.has(i) || !call.item(i)->value) continue;
      for (const Dim& size : call.item(i)->value.shape())
        if (!bounded_symbol(size).empty()) call.fail_on_size(problem.what(), i);
    }
    throw;
  }
}

}  // namespace

std::vector<ItemPtr> GraphRunner::run_operator(const OnnxNode& node, const std::vector<ItemPtr>& inputs,
                                               const Frame& frame) {
  const Operator* operation = find_operator(node.op);
  if (!operation) fail("the operator {} is not read", node.op);
  check_elements(*operation, inputs);
  Call call(*environment_, node, version_of(node.op, frame), inputs);
  const Frame* const previous = frame_;
  frame_ = &frame;
  Results results = translated(*operation, call);
  frame_ = previous;
  call.check_all_read();
  keep_elements(*operation, inputs, results);
  return results;
}

void GraphRunner::run_node(const OnnxNode& node, Frame& frame) {
  if (++translated_ > kMaxNodes)
    fail("it has more than {} nodes after loops are unrolled and functions are inlined", kMaxNodes);
  const auto translate = [&] {
    std::vector<ItemPtr> inputs;
    for (const std::string& name : node.inputs) inputs.push_back(find(name, frame));
    const OnnxNode own = frame.attributes ? with_attributes(node, *frame.attributes) : node;
    const OnnxFunction* function = find_function(node.op);
    Graph& graph = environment_->g->graph();
    graph.push_layer_scope(module_of(node));
    const std::vector<ItemPtr> results =
        function ? run_function(*function, own, inputs) : run_operator(own, inputs, frame);
    graph.pop_scope();
    if (depth_ == 1 && node.op == "Constant" && !function && !node.outputs.empty())
      keep_weight(node, *results[0]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= results.size() || !results[i])
        fail("its result {} ('{}') is not computed here", i, node.outputs[i]);
      frame.names[node.outputs[i]] = results[i];
    }
  };
  with_context(translate, [&] {
    return fmt::format("in the node '{}' ({})",
                       node.name.empty() ? fmt::format("{}", fmt::join(node.outputs, ",")) : node.name,
                       node.op);
  });
}

}  // namespace genesis::models::onnx
