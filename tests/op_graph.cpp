#include "tests/op_graph.h"

#include <cmath>
#include <random>

#include "passes/training/autodiff.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::testing {

Tensor tensor_of(const Ref& ref, DType dtype) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized({dtype, Shape::of(ref.shape)}, &data);
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < ref.data.size(); ++i) {
      T value;
      if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
        value = T(static_cast<float>(ref.data[i]));
      else
        value = static_cast<T>(ref.data[i]);
      reinterpret_cast<T*>(data)[i] = value;
    }
  });
  return tensor;
}

Ref ref_of(const Tensor& tensor) { return {tensor.type().shape.sizes(), tensor.to_doubles()}; }

bool is_real(const CaseInput& input) { return input.dtype == DType::f32; }

bool has_differentiable_input(const OpCase& op_case) {
  for (const CaseInput& input : op_case.inputs)
    if (input.differentiable) return true;
  return false;
}

namespace {

// Returns the dtype of an input in the variant of the case in which reals are `real_dtype`.
DType variant_dtype(const CaseInput& input, DType real_dtype) {
  return is_real(input) && !input.keep_dtype ? real_dtype : input.dtype;
}

double draw(const CaseInput& input, std::mt19937_64& random) {
  const double unit = std::uniform_real_distribution<double>(0, 1)(random);
  const double value = input.low + (input.high - input.low) * unit;
  return is_real(input) || input.dtype == DType::f64 ? value : std::floor(value);
}

}  // namespace

Refs make_values(const OpCase& op_case, DType real_dtype) {
  std::mt19937_64 random(std::hash<std::string>{}(op_case.name));
  Refs refs;
  for (const CaseInput& input : op_case.inputs) {
    Ref ref{input.shape, input.values};
    if (ref.data.empty())
      for (int64_t i = 0; i < ref.numel(); ++i) ref.data.push_back(draw(input, random));
    // f64 runs also start from f32 values, so that both variants compute the same function of the same inputs.
    const DType rounding = real_dtype == DType::f64 ? DType::f32 : real_dtype;
    refs.push_back(ref_of(tensor_of(ref, variant_dtype(input, rounding))));
  }
  return refs;
}

namespace {

// Computes sum_i sum(y_i * r_i) with fixed r: a scalar whose gradient depends on every output.
Value projection(Graph& graph, const Outputs& outputs, Built& built, const Refs& weights, DType dtype) {
  Value total;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype())) continue;
    const std::string name = "projection" + std::to_string(i);
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    built.inputs[name] = tensor_of(weights[i], wide);
    const Value weight = graph.add_input(name, built.inputs[name].type());
    const Value term = sum(cast(outputs[i], wide) * weight);
    total = total ? total + term : term;
  }
  return total;
}

}  // namespace

Refs projection_weights(const Refs& outputs) {
  Refs weights = outputs;
  for (size_t i = 0; i < weights.size(); ++i)
    for (size_t k = 0; k < weights[i].data.size(); ++k)
      weights[i].data[k] =
          static_cast<float>(0.5 + std::fmod(static_cast<double>(k + i) * 0.618033988749895, 1.0));
  return weights;
}

Built build(const OpCase& op_case, const Refs& values, DType real_dtype, const Refs* weights) {
  Built built{std::make_shared<Model>(), {}, {}, {}};
  Graph& graph = built.model->add_entry("main");
  Inputs inputs{graph, {}};
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    built.inputs[name] = tensor_of(values[i], variant_dtype(op_case.inputs[i], real_dtype));
    inputs.values.push_back(graph.add_input(name, built.inputs[name].type()));
  }
  const Outputs outputs = op_case.build(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    built.outputs.push_back("y" + std::to_string(i));
    graph.add_output(built.outputs.back(), outputs[i]);
  }
  if (weights == nullptr) return built;
  const Value loss = projection(graph, outputs, built, *weights, real_dtype);
  std::vector<Value> wanted;
  for (size_t i = 0; i < inputs.values.size(); ++i)
    if (op_case.inputs[i].differentiable) wanted.push_back(inputs[i]);
  const std::vector<Value> gradients = passes::gradients(graph, loss, wanted);
  for (size_t i = 0, next = 0; i < inputs.values.size(); ++i) {
    built.gradients.push_back(op_case.inputs[i].differentiable ? "dx" + std::to_string(i) : "");
    if (op_case.inputs[i].differentiable) graph.add_output(built.gradients.back(), gradients[next++]);
  }
  return built;
}

}  // namespace genesis::testing
