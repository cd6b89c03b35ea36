// Rules of the optimizer ops: what they take, and that state keeps its type.
#include "schema/ops/nn/optimizer.h"

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

DType state_dtype(DType parameter) { return parameter == DType::f64 ? DType::f64 : DType::f32; }

void check_parameter(const TensorType& parameter, const TensorType& gradient) {
  if (!is_float(parameter.dtype)) fail("the parameter must be floating-point, got {}", parameter.to_string());
  if (!is_float(gradient.dtype) || !(gradient.shape == parameter.shape))
    fail("the gradient must be floating-point and have the parameter's shape {}, got {}",
         parameter.shape.to_string(), gradient.to_string());
}

void check_state(const TensorType& parameter, const TensorType& state, const char* what) {
  const TensorType expected{state_dtype(parameter.dtype), parameter.shape};
  if (!(state == expected))
    fail("{} must be {} to go with parameter {}, got {}", what, expected.to_string(), parameter.to_string(),
         state.to_string());
}

void check_real_scalar(const TensorType& type, const char* what) {
  if (type.shape.rank() != 0 || !(type.dtype == DType::f32 || type.dtype == DType::f64))
    fail("{} must be an f32 or f64 scalar, got {}", what, type.to_string());
}

void check_step(const TensorType& type) {
  if (type.shape.rank() != 0 || !(type.dtype == DType::i64 || type.dtype == DType::i32))
    fail("step must be an i64 or i32 scalar, got {}", type.to_string());
}

void check_skip(bool skip_nonfinite, bool has_scale) {
  if (skip_nonfinite && !has_scale) fail("skip_nonfinite needs a scale: that is what tells it to skip");
}

}  // namespace

namespace ops {

std::vector<TensorType> SgdUpdate::infer(Types in) const {
  check_parameter(in[0], in[1]);
  check_real_scalar(in[2], "lr");
  check_step(in[3]);
  const bool buffer = momentum != 0;
  if (nesterov && (momentum <= 0 || dampening != 0))
    fail("Nesterov momentum needs a momentum and no dampening, got momentum {} and dampening {}", momentum,
         dampening);
  const size_t expected = 4u + buffer + has_scale;
  if (in.size() != expected) fail("the attributes ask for {} inputs, {} were given", expected, in.size());
  if (buffer) check_state(in[0], in[4], "the momentum buffer");
  if (has_scale) check_real_scalar(in.back(), "scale");
  check_skip(skip_nonfinite, has_scale);
  if (!buffer) return {in[0]};
  return {in[0], in[4]};
}

std::vector<TensorType> AdamUpdate::infer(Types in) const {
  check_parameter(in[0], in[1]);
  check_state(in[0], in[2], "m");
  check_state(in[0], in[3], "v");
  check_real_scalar(in[4], "lr");
  check_step(in[5]);
  if (in.size() > 6) check_real_scalar(in[6], "scale");
  check_skip(skip_nonfinite, in.size() > 6);
  return {in[0], in[2], in[3]};
}

std::vector<TensorType> LionUpdate::infer(Types in) const {
  check_parameter(in[0], in[1]);
  check_state(in[0], in[2], "the momentum");
  check_real_scalar(in[3], "lr");
  if (in.size() > 4) check_real_scalar(in[4], "scale");
  check_skip(skip_nonfinite, in.size() > 4);
  return {in[0], in[2]};
}

std::vector<TensorType> AdamUpdateGroup::infer(Types in) const {
  const auto n = weight_decays.size(), first = static_cast<size_t>(first_parameter());
  if (n == 0 || in.size() != first + 4 * n)
    fail("the attributes ask for {} inputs for {} parameters, {} were given", first + 4 * n, n, in.size());
  check_real_scalar(in[0], "lr");
  check_step(in[1]);
  if (has_scale) check_real_scalar(in[2], "scale");
  for (size_t i = first; i < first + n; ++i) {
    check_parameter(in[i], in[i + n]);
    check_state(in[i], in[i + 2 * n], "m");
    check_state(in[i], in[i + 3 * n], "v");
  }
  std::vector<TensorType> out(in.begin() + static_cast<std::ptrdiff_t>(first), in.end());
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(n), out.begin() + static_cast<std::ptrdiff_t>(2 * n));
  return out;
}

// Everything but the gradients is written where it was read.
std::vector<InPlace> AdamUpdateGroup::in_place(Types, Types outputs) const {
  std::vector<InPlace> pairs;
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i)
    pairs.push_back({i, first_parameter() + (i < count() ? i : i + count())});
  return pairs;
}

std::vector<TensorType> AdamUpdateHalves::infer(Types in) const {
  const auto halves = parts.size(), n = weight_decays.size(), upper = static_cast<size_t>(first_upper());
  const auto gradient = static_cast<size_t>(first_gradient());
  if (n == 0 || in.size() != gradient + 3 * n)
    fail("the attributes ask for {} inputs for {} parameters, {} were given", gradient + 3 * n, n, in.size());
  check_real_scalar(in[0], "lr");
  check_step(in[1]);
  if (has_scale) check_real_scalar(in[2], "scale");
  check_skip(skip_nonfinite, has_scale);
  size_t parameter = 0;
  for (size_t i = 0; i < halves; ++i) {
    const TensorType &high = in[upper + i], &low = in[upper + halves + i];
    if (high.dtype != DType::bf16 || low.dtype != DType::i16 || !(high.shape == low.shape))
      fail("the halves must be bf16 and i16 of one shape, got {} and {}", high.to_string(), low.to_string());
    Dim held(0);
    for (int64_t part = 0; part < parts[i]; ++part, ++parameter) {
      if (parameter == n) fail("the parts ask for more than the {} parameters given", n);
      const TensorType as_f32{DType::f32, in[gradient + parameter].shape};
      check_parameter(as_f32, in[gradient + parameter]);
      check_state(as_f32, in[gradient + n + parameter], "m");
      check_state(as_f32, in[gradient + 2 * n + parameter], "v");
      held = held + as_f32.shape.numel();
    }
    if (!(held == high.shape.numel()))
      fail("halves of {} are to hold parameters of {} elements", high.to_string(), held.to_string());
  }
  if (parameter != n) fail("the parts ask for {} parameters, {} were given", parameter, n);
  std::vector<TensorType> out(in.begin() + static_cast<std::ptrdiff_t>(upper),
                              in.begin() + static_cast<std::ptrdiff_t>(gradient));
  out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(gradient + n), in.end());
  return out;
}

std::vector<InPlace> AdamUpdateHalves::in_place(Types, Types outputs) const {
  std::vector<InPlace> pairs;
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i)
    pairs.push_back({i, first_upper() + (i < 2 * num_halves() ? i : i + num_parameters())});
  return pairs;
}

std::vector<TensorType> SumSquares::infer(Types in) const {
  DType dtype = DType::f32;
  for (const TensorType& x : in) {
    if (!is_float(x.dtype)) fail("sum_squares needs floating-point tensors, got {}", x.to_string());
    if (x.dtype == DType::f64) dtype = DType::f64;
  }
  return {{dtype, {}}};
}

void SumSquares::grad(GradientContext& g) const {
  for (int i = 0; i < g.num_inputs(); ++i)
    if (g.wants(i)) g.set(i, cast(g.input(i), g.dy().dtype()) * (g.dy() * 2.0));
}

}  // namespace ops

namespace {

constexpr OpDef kSgdUpdate = make_op<ops::SgdUpdate>();
constexpr OpDef kAdamUpdate = make_op<ops::AdamUpdate>();
constexpr OpDef kAdamUpdateGroup = make_op<ops::AdamUpdateGroup>();
constexpr OpDef kAdamUpdateHalves = make_op<ops::AdamUpdateHalves>();
constexpr OpDef kLionUpdate = make_op<ops::LionUpdate>();
constexpr OpDef kSumSquares = make_op<ops::SumSquares>();
constexpr const OpDef* kOps[] = {&kSgdUpdate,        &kAdamUpdate, &kAdamUpdateGroup,
                                 &kAdamUpdateHalves, &kLionUpdate, &kSumSquares};

void append(std::vector<Value>& inputs, Value optional) {
  if (optional) inputs.push_back(optional);
}

}  // namespace

std::span<const OpDef* const> optimizer_ops() { return kOps; }

ParameterAndMomentum sgd_update(Value parameter, Value gradient, Value momentum_buffer, Value lr, Value step,
                                const SgdOptions& options, Value scale) {
  const ops::SgdUpdate op{options.momentum, options.dampening, options.weight_decay,
                          options.nesterov, bool(scale),       options.skip_nonfinite};
  if (options.momentum != 0 && !momentum_buffer) fail("sgd_update with momentum needs a momentum buffer");
  std::vector<Value> inputs = {parameter, gradient, lr, step};
  if (options.momentum != 0) inputs.push_back(momentum_buffer);
  append(inputs, scale);
  const auto out = emit_node(kSgdUpdate, to_attributes(op), inputs);
  return {out[0], out.size() > 1 ? out[1] : Value{}};
}

AdamResult adam_update(Value parameter, Value gradient, Value m, Value v, Value lr, Value step,
                       const AdamOptions& options, Value scale) {
  const ops::AdamUpdate op{options.beta1,        options.beta2,     options.eps,
                           options.weight_decay, options.decoupled, options.skip_nonfinite};
  std::vector<Value> inputs = {parameter, gradient, m, v, lr, step};
  append(inputs, scale);
  const auto out = emit_node(kAdamUpdate, to_attributes(op), inputs);
  return {out[0], out[1], out[2]};
}

std::vector<AdamResult> adam_update_group(const std::vector<AdamOperands>& operands, Value lr, Value step,
                                          const AdamOptions& options, Value scale) {
  if (operands.empty()) fail("adam_update_group was given no parameters");
  ops::AdamUpdateGroup op{options.beta1, options.beta2,          options.eps, options.decoupled,
                          bool(scale),   options.skip_nonfinite, {}};
  for (const AdamOperands& each : operands) op.weight_decays.push_back(each.weight_decay);
  std::vector<Value> inputs = {lr, step};
  append(inputs, scale);
  for (const auto field :
       {&AdamOperands::parameter, &AdamOperands::gradient, &AdamOperands::m, &AdamOperands::v})
    for (const AdamOperands& each : operands) inputs.push_back(each.*field);
  const auto out = emit_node(kAdamUpdateGroup, to_attributes(op), inputs);
  const size_t n = operands.size();
  std::vector<AdamResult> results;
  for (size_t i = 0; i < n; ++i) results.push_back({out[i], out[n + i], out[2 * n + i]});
  return results;
}

std::vector<AdamHalvesResult> adam_update_halves(const std::vector<AdamHalves>& operands, Value lr,
                                                 Value step, const AdamOptions& options, Value scale) {
  ops::AdamUpdateHalves op{options.beta1, options.beta2,          options.eps, options.decoupled,
                           bool(scale),   options.skip_nonfinite, {},          {}};
  std::vector<Value> inputs = {lr, step};
  append(inputs, scale);
  for (const AdamHalves& halves : operands) inputs.push_back(halves.upper);
  for (const AdamHalves& halves : operands) inputs.push_back(halves.lower);
  for (const auto field : {&AdamOperands::gradient, &AdamOperands::m, &AdamOperands::v})
    for (const AdamHalves& halves : operands)
      for (const AdamOperands& each : halves.parameters) inputs.push_back(each.*field);
  for (const AdamHalves& halves : operands) {
    op.parts.push_back(static_cast<int64_t>(halves.parameters.size()));
    for (const AdamOperands& each : halves.parameters) op.weight_decays.push_back(each.weight_decay);
  }
  const auto out = emit_node(kAdamUpdateHalves, to_attributes(op), inputs);
  const size_t count = operands.size(), n = op.weight_decays.size();
  std::vector<AdamHalvesResult> results;
  for (size_t i = 0, m = 2 * count; i < count; ++i) {
    results.push_back({out[i], out[count + i], {}});
    for (size_t part = 0; part < operands[i].parameters.size(); ++part, ++m)
      results.back().parameters.push_back({{}, out[m], out[n + m]});
  }
  return results;
}

ParameterAndMomentum lion_update(Value parameter, Value gradient, Value momentum, Value lr,
                                 const LionOptions& options, Value scale) {
  const ops::LionUpdate op{options.beta1, options.beta2, options.weight_decay, options.skip_nonfinite};
  std::vector<Value> inputs = {parameter, gradient, momentum, lr};
  append(inputs, scale);
  const auto out = emit_node(kLionUpdate, to_attributes(op), inputs);
  return {out[0], out[1]};
}

Value global_norm(const std::vector<Value>& gradients, bool one_by_one) {
  if (gradients.empty()) fail("global_norm was given no gradients");
  if (!one_by_one || gradients.size() == 1)
    return sqrt(cast(emit_node(kSumSquares, {}, gradients)[0], DType::f32));
  std::vector<Value> squares;
  for (Value gradient : gradients)
    squares.push_back(cast(emit_node(kSumSquares, {}, {gradient})[0], DType::f32));
  return sqrt(sum(stack(squares)));
}

Value clip_scale(Value norm, double max_norm) { return minimum(max_norm / (norm + 1e-6), 1.0); }

Value clip_by_value(Value gradient, double limit) { return clamp(gradient, -limit, limit); }

}  // namespace genesis
