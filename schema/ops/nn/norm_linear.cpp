#include "schema/ops/nn/norm_linear.h"

#include "schema/ops/nn/norm.h"

namespace genesis {
namespace ops {

std::vector<TensorType> NormLinear::infer(Types in) const {
  if (has_bias && in.size() % 2 != 0)
    fail("norm_linear with biases needs one for each weight, got {} inputs besides x and norm",
         in.size() - 2);
  if (swiglu && (layers(in.size()) != 2 || activation != Activation::kNone))
    fail("norm_linear with swiglu takes the weights of gate and up and no activation");
  std::vector<TensorType> layered = {RmsNorm{eps, 1, true}.infer(in.first(2))[0]};
  layered.insert(layered.end(), in.begin() + 2, in.end());
  return swiglu ? LinearSwiglu{}.infer(layered) : MergedLinear{has_bias, activation}.infer(layered);
}

Cost NormLinear::cost(Types in, Types out) const {
  Cost cost{.bytes = bytes_moved(in, out)};
  for (const TensorType& result : out) cost.flops += product_flops(result, axis_size(in[0], -1));
  if (swiglu) cost.flops *= 2;
  return cost;
}

}  // namespace ops

namespace {

constexpr OpDef kNormLinear = make_op<ops::NormLinear>();
constexpr const OpDef* kOps[] = {&kNormLinear};

}  // namespace

std::span<const OpDef* const> norm_linear_ops() { return kOps; }

std::vector<Value> norm_linear(Value x, Value norm, const std::vector<Value>& weights,
                               const std::vector<Value>& biases, ops::NormLinear options) {
  options.has_bias = !biases.empty();
  std::vector<Value> inputs = {x, norm};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  return emit_node(kNormLinear, to_attributes(options), inputs);
}

}  // namespace genesis
