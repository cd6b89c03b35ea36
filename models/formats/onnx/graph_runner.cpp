#include "models/formats/onnx/graph_runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

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
  environment.make_body = [this](const OnnxGraph& graph, const BodyInputs& inputs,
                                 const BodyOutputs& outputs) { return make_body(graph, inputs, outputs); };
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
  frame.level = levels_.size();
  for (const OnnxTensor& tensor : graph.tensors)
    frame.names[tensor.name] = inside(item_of_initializer(tensor), 0);
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
  frame.level = levels_.size();
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
ItemPtr GraphRunner::find(const std::string& name, const Frame& frame) {
  if (name.empty()) return nullptr;
  for (const Frame* at = &frame; at; at = at->outer) {
    const auto known = at->names.find(name);
    if (known != at->names.end()) return inside(known->second, at->level);
  }
  fail("the value '{}' is read, and nothing before makes it", name);
}

std::string GraphRunner::body_name() const {
  const Model& model = environment_->g->model();
  for (int i = 0;; ++i)
    if (std::string name = fmt::format("loop.{}", i); !model.find_entry(name)) return name;
}

Body GraphRunner::make_body(const OnnxGraph& graph, const BodyInputs& inputs, const BodyOutputs& outputs) {
  Environment& environment = *environment_;
  Model& model = environment.g->model();
  Body body{.entry = body_name(), .results = {}, .read = {}};
  GraphBuilder builder(model, body.entry);
  const Frame* const frame = frame_;
  const int depth = depth_;
  const size_t level = levels_.size();
  levels_.push_back({.around = environment.g, .known_around = std::exchange(environment.known, {})});
  const auto leave = [&] {
    environment.g = levels_.back().around;
    environment.known = std::move(levels_.back().known_around);
    levels_.pop_back();
    environment.in_body = level > 0;
    frame_ = frame, depth_ = depth;
  };
  environment.g = &builder;
  environment.in_body = true;
  try {
    body.results =
        run_graph(graph, inputs(builder, [&](const ItemPtr& item) { return inside(item, level); }), frame_);
    outputs(builder, body.results);
  } catch (...) {
    leave();
    model.remove_entry(body.entry);
    throw;
  }
  body.read = std::move(levels_.back().read);
  leave();
  return body;
}

// Returns the item of the innermost body for an item of the graph that is translated into so many bodies.
ItemPtr GraphRunner::inside(const ItemPtr& item, size_t level) {
  ItemPtr result = item;
  for (; level < levels_.size() && result; ++level) {
    ItemPtr& known = levels_[level].items[result];
    if (!known) known = inside_of(level, *result);
    result = known;
  }
  return result;
}

namespace {

// Returns the numbers of an integer value that follow from constants and sizes.
std::optional<Tensor> known_integers(KnownValues& known, Value value) {
  if (is_float(value.dtype()) || !value.shape().is_constant() || value.type().numel() > 4096)
    return std::nullopt;
  if (auto tensor = known.tensor(value)) return tensor;
  const auto sizes = value.dtype() == DType::i64 ? known.sizes(value) : std::nullopt;
  std::vector<int64_t> numbers;
  for (size_t i = 0; sizes && i < sizes->elements.size(); ++i)
    if (sizes->elements[i].is_constant()) numbers.push_back(sizes->elements[i].value());
  if (!sizes || numbers.size() != sizes->elements.size()) return std::nullopt;
  return Tensor::of(sizes->shape, numbers);
}

}  // namespace

ItemPtr GraphRunner::inside_of(size_t index, Item& item) {
  Level& level = levels_[index];
  auto result = std::make_shared<Item>(item);
  if (item.kind == Item::Kind::kNone) return result;
  if (item.kind == Item::Kind::kSequence) fail("a body of a loop reads a sequence of the graph around it");
  if (!item.value && !item.is_parameter) return result;  // a constant, which becomes one of the body
  // Values are of the graph around the body; body graphs are made while `g` is that of the innermost one.
  GraphBuilder* const inner = std::exchange(environment_->g, level.around);
  const Value value = value_of(*environment_, item);
  environment_->g = inner;
  Graph& graph = index + 1 < levels_.size() ? levels_[index + 1].around->graph() : inner->graph();
  const ValueInfo& info = value.graph->value(value.id);
  if (info.kind == ValueKind::kState) {
    result->value = graph.state(info.index);
  } else if (info.kind == ValueKind::kConstant) {
    result->value = graph.constant(info.index);
  } else if (const auto tensor = known_integers(level.known_around, value)) {
    result->value = {};
    result->tensor = tensor;
  } else {
    result->value = graph.add_input(fmt::format("read.{}", level.read.size()), value.type());
    level.read.push_back(value);
  }
  return result;
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
