#include "models/formats/onnx/call.h"

#include <fmt/ranges.h>

#include <set>

#include "models/formats/bounded_sizes.h"
#include "schema/core/error.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"

namespace genesis::models::onnx {
namespace {

Value state_of(Environment& environment, const Item& item, bool is_buffer) {
  Model& model = environment.g->model();
  std::string name = item.name.empty() ? "constant" : item.name;
  for (int i = 1; model.find_state(name) >= 0; ++i) name = fmt::format("{}.{}", item.name, i);
  const int32_t state = model.add_state({.name = name,
                                         .type = item.tensor->type(),
                                         .role = is_buffer ? StateRole::kBuffer : StateRole::kParameter,
                                         .trainable = !is_buffer,
                                         .initial = *item.tensor});
  return environment.g->graph().state(state);
}

// Returns the names of the open sizes that a value is computed from.
std::vector<std::string> open_sizes_behind(Value value) {
  std::set<std::string> names;
  std::set<int32_t> seen;
  std::vector<ValueId> open = {value.id};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id.index).second) continue;
    std::vector<std::string> symbols;
    for (const Dim& dim : value.graph->type(id).shape) dim.collect_symbols(symbols);
    const ValueInfo& info = value.graph->value(id);
    if (info.kind == ValueKind::kNode) {
      const Node& node = value.graph->node(info.producer);
      if (is<ops::DimValue>(*node.op))
        from_attributes<ops::DimValue>(node.attributes).dim[0].collect_symbols(symbols);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
    names.insert(symbols.begin(), symbols.end());
  }
  return {names.begin(), names.end()};
}

}  // namespace

Value value_of(Environment& environment, Item& item, bool is_buffer) {
  if (item.value) return item.value;
  if (item.kind != Item::Kind::kTensor || !item.tensor) fail("a sequence is given where a tensor should be");
  if (item.is_parameter) return item.value = state_of(environment, item, is_buffer);
  return item.value = environment.g->constant(item.name.empty() ? "constant" : item.name, *item.tensor);
}

Call::Call(Environment& environment, const OnnxNode& node, int64_t version, std::vector<ItemPtr> inputs)
    : environment_(&environment), node_(&node), version_(version), inputs_(std::move(inputs)) {}

bool Call::has(size_t place) const {
  return place < inputs_.size() && inputs_[place] && inputs_[place]->kind != Item::Kind::kNone;
}

const ItemPtr& Call::item(size_t place) const {
  if (!has(place)) fail("its input {} is missing", place);
  return inputs_[place];
}

Value Call::tensor(size_t place) const { return value_of(*environment_, *item(place)); }
Value Call::buffer(size_t place) const { return value_of(*environment_, *item(place), true); }

std::vector<Value> Call::tensors(size_t first) const {
  std::vector<Value> values;
  for (size_t place = first; place < inputs_.size(); ++place) values.push_back(tensor(place));
  return values;
}

const std::vector<ItemPtr>& Call::sequence(size_t place) const {
  if (item(place)->kind != Item::Kind::kSequence) fail("its input {} is no sequence", place);
  return inputs_[place]->items;
}

void Call::fail_unknown(size_t place) const {
  const std::vector<std::string> sources = environment_->known.sources(tensor(place));
  const std::vector<std::string> sizes = open_sizes_behind(tensor(place));
  const std::string start =
      fmt::format("its input {} decides the size or the kind of a result, and depends on ", place);
  if (!sources.empty())
    throw NeedsValue(
        fmt::format("{}data of '{}': expected constants and sizes of inputs, or a value given for it", start,
                    fmt::join(sources, "', '")),
        sources);
  if (sizes.empty()) throw NeedsValue(start + "random numbers: expected constants and sizes of inputs", {});
  throw NeedsValue(
      fmt::format("{}the open {} '{}' in a way that is no polynomial: give {}, such as --set {}=1", start,
                  sizes.size() == 1 ? "size" : "sizes", fmt::join(sizes, "', '"),
                  sizes.size() == 1 ? "it a value" : "them values", fmt::join(sizes, "=1 --set ")),
      {});
}

Tensor Call::known(size_t place) const {
  if (item(place)->tensor) return *item(place)->tensor;
  const auto tensor = environment_->known.tensor(this->tensor(place));
  if (!tensor) fail_unknown(place);
  return *tensor;
}

std::optional<KnownSizes> Call::try_sizes(size_t place) const {
  const Item& given = *item(place);
  if (!given.tensor || given.value) return environment_->known.sizes(tensor(place));
  KnownSizes sizes{given.tensor->shape().sizes(), {}};
  if (given.tensor->numel() > 4096) return std::nullopt;
  for (const double number : given.tensor->to_doubles())
    sizes.elements.emplace_back(static_cast<int64_t>(number));
  if (given.tensor->dtype() == DType::i64) {
    const auto exact = given.tensor->as<int64_t>();
    sizes.elements.assign(exact.begin(), exact.end());
  }
  return sizes;
}

KnownSizes Call::known_sizes(size_t place) const {
  auto sizes = try_sizes(place);
  if (!sizes) fail_unknown(place);
  return *sizes;
}

std::vector<int64_t> Call::integers(size_t place) const {
  std::vector<int64_t> numbers;
  for (const Dim& size : sizes(place)) {
    numbers.push_back(number_of(place, size));
  }
  return numbers;
}

int64_t Call::number_of(size_t place, const Dim& size) const {
  if (size.is_constant()) return size.value();
  const std::string problem = fmt::format("its input {} is {}: expected a number", place, size.to_string());
  if (bounded_symbol(size).empty()) fail("{}", problem);
  fail_on_size(problem, place);
}

void Call::fail_on_size(const std::string& problem, size_t place) const {
  std::vector<std::string> inputs;
  for (const ValueId id : graph().inputs()) inputs.push_back(graph().value(id).name);
  throw NeedsValue(fmt::format("{} (a size of its input {}, {}, depends on data)", problem, place,
                               tensor(place).type().to_string()),
                   inputs);
}

int64_t Call::integer(size_t place) const {
  const auto numbers = integers(place);
  if (numbers.size() != 1) fail("its input {} has {} elements: expected one", place, numbers.size());
  return numbers[0];
}

double Call::number(size_t place) const {
  const Tensor tensor = known(place);
  if (tensor.numel() != 1) fail("its input {} has {} elements: expected one", place, tensor.numel());
  return tensor.to_doubles()[0];
}

const OnnxAttribute* Call::find(const std::string& name) {
  read_.insert(name);
  return node_->attribute(name);
}

int64_t Call::attribute(const std::string& name, int64_t otherwise) {
  const OnnxAttribute* found = find(name);
  if (!found) return otherwise;
  if (!found->integer) fail("its attribute '{}' is {}: expected an integer", name, found->text);
  return *found->integer;
}

double Call::real(const std::string& name, double otherwise) {
  const OnnxAttribute* found = find(name);
  if (!found) return otherwise;
  if (!found->real) fail("its attribute '{}' is {}: expected a number", name, found->text);
  return *found->real;
}

std::string Call::text(const std::string& name, const std::string& otherwise) {
  const OnnxAttribute* found = find(name);
  if (!found) return otherwise;
  if (!found->string) fail("its attribute '{}' is {}: expected a text", name, found->text);
  return *found->string;
}

std::vector<int64_t> Call::list(const std::string& name, std::vector<int64_t> otherwise) {
  const OnnxAttribute* found = find(name);
  if (!found) return otherwise;
  return found->integers;
}

std::vector<double> Call::reals(const std::string& name) {
  const OnnxAttribute* found = find(name);
  return found ? found->reals : std::vector<double>{};
}

std::vector<std::string> Call::texts(const std::string& name) {
  const OnnxAttribute* found = find(name);
  return found ? found->strings : std::vector<std::string>{};
}

const OnnxGraph& Call::body(const std::string& name) {
  const OnnxAttribute* found = find(name);
  if (!found || found->graphs.size() != 1) fail("its attribute '{}' is no graph", name);
  return *found->graphs[0];
}

std::optional<Tensor> Call::tensor_attribute(const std::string& name) {
  const OnnxAttribute* found = find(name);
  if (!found) return std::nullopt;
  if (!found->tensor) fail("its attribute '{}' is {}: expected a tensor", name, found->text);
  return onnx_tensor_values(*found->tensor, environment_->owner, *environment_->external);
}

std::vector<int64_t> Call::list_or_input(const std::string& name, size_t place) {
  if (has_attribute(name)) return list(name);
  return has(place) ? integers(place) : std::vector<int64_t>{};
}

bool Call::wants(size_t output) const {
  return output < node_->outputs.size() && !node_->outputs[output].empty();
}

void Call::check_all_read() const {
  for (const OnnxAttribute& attribute : node_->attributes)
    if (!read_.contains(attribute.name))
      fail("its attribute '{}' ({}) is not understood", attribute.name, attribute.text.substr(0, 100));
}

}  // namespace genesis::models::onnx
