#include "passes/cast_precision.h"

#include <algorithm>

#include "schema/ops/cast.h"

namespace genesis::passes {
namespace {

TensorType low_type(TensorType type, DType low) {
  if (type.dtype == DType::f32) type.dtype = low;
  return type;
}

template <class T>
Tensor converted(const Tensor& tensor, DType low) {
  std::byte* data;
  Tensor result = Tensor::uninitialized({low, tensor.type().shape}, &data);
  const auto from = tensor.as<float>();
  auto* to = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < from.size(); ++i) to[i] = T(from[i]);
  return result;
}

Tensor low_tensor(const Tensor& tensor, DType low) {
  if (tensor.empty_handle() || tensor.type().dtype != DType::f32) return tensor;
  return low == DType::bf16 ? converted<bf16>(tensor, low) : converted<f16>(tensor, low);
}

// Single numbers steer a computation (scales, rates, eps) and cost nothing: they keep their precision.
bool is_single(const TensorType& type) { return type.shape.rank() == 0; }

// One entry point, rewritten into the new model.
class Caster {
 public:
  Caster(const Graph& from, Graph& into, DType low)
      : from_(from), into_(into), low_(low), values_(from.values().size()) {}

  void run() {
    for (ValueId id : from_.inputs()) at(id) = into_.add_input(from_.value(id).name, from_.type(id));
    for (const Node& node : from_.nodes()) copy(node);
    for (const NamedValue& output : from_.outputs())
      into_.add_output(output.name, cast(map(output.value), from_.type(output.value).dtype));
    for (const StateUpdate& update : from_.updates())
      into_.add_update(update.state, cast(map(update.value), into_.model().state(update.state).type.dtype));
  }

 private:
  Value& at(ValueId id) { return values_[static_cast<size_t>(id.index)]; }

  Value map(ValueId id) {
    const ValueInfo& info = from_.value(id);
    if (!at(id))
      at(id) = info.kind == ValueKind::kState ? into_.state(info.index) : into_.constant(info.index);
    return at(id);
  }

  // In which precision the node wants this operand.
  Value operand(const Node& node, ValueId id) {
    const Value value = map(id);
    const TensorType& authored = from_.type(id);
    if (authored.dtype != DType::f32) return value;
    const Precision precision = node.op->info.precision;
    if (precision == Precision::kF32 || precision == Precision::kExact) return cast(value, DType::f32);
    return is_single(authored) ? value : cast(value, low_);
  }

  void copy(const Node& node) {
    into_.set_origins(node.origins);
    const NameScope scope(into_, node.name);
    std::vector<Value> inputs;
    for (ValueId id : node.inputs) inputs.push_back(operand(node, id));
    const std::vector<Value> outputs = into_.add_node(*node.op, node.attributes, inputs, node.name);
    for (size_t i = 0; i < node.outputs.size(); ++i) at(node.outputs[i]) = outputs[i];
    into_.set_origins({});
  }

  const Graph& from_;
  Graph& into_;
  DType low_;
  std::vector<Value> values_;  // of into_, by value of from_
};

void check_no_training(const Model& model) {
  for (const auto& entry : model.entries())
    for (const StateUpdate& update : entry->updates())
      if (model.state(update.state).role == StateRole::kParameter)
        fail("entry point '{}' trains '{}': remove it before casting to low precision", entry->name(),
             model.state(update.state).name);
}

}  // namespace

std::unique_ptr<Model> cast_precision(const Model& model, DType low) {
  if (!is_low_precision(low)) fail("cannot cast a model to {}: expected bf16 or f16", name_of(low));
  check_no_training(model);
  auto result = std::make_unique<Model>();
  result->metadata = model.metadata;
  result->metadata["precision"] = name_of(low);
  for (const NamedTensor& row : model.tensors()) result->add_tensor(row.name, low_tensor(row.tensor, low));
  for (State state : model.states()) {
    state.type = low_type(state.type, low);
    state.initial = low_tensor(state.initial, low);
    result->add_state(std::move(state));
  }
  for (const auto& entry : model.entries())
    with_context(
        [&] { Caster(*entry, result->add_entry(entry->name()), low).run(); },
        [&] { return "while casting entry point '" + entry->name() + "' to " + std::string(name_of(low)); });
  return result;
}

}  // namespace genesis::passes
