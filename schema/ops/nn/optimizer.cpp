// Rules of the optimizer ops: they check the inputs, and results have the types of the inputs they replace.
#include "schema/ops/nn/optimizer.h"

#include "schema/core/moment_codes.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

void check_parameter(const TensorType& parameter, const TensorType& gradient) {
  if (!is_float(parameter.dtype)) fail("the parameter must be floating-point, got {}", parameter.to_string());
  if (!is_float(gradient.dtype) || !(gradient.shape == parameter.shape))
    fail("the gradient must be floating-point and have the parameter's shape {}, got {}",
         parameter.shape.to_string(), gradient.to_string());
}

void check_state(const TensorType& parameter, const TensorType& state, const char* what) {
  const TensorType expected{wide_dtype(parameter.dtype), parameter.shape};
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

void check_codes(const ops::AdamUpdate& op, Types in, const TensorType& parameter, int k) {
  if (!ops::can_have_moment_codes(parameter))
    fail(
        "moments of 8 bits need a parameter that is not f64 and has a multiple of {} elements, along each "
        "row of its first axis if it has more than two, got {}",
        kMomentBlock, parameter.to_string());
  const auto check = [&](int i, const TensorType& expected, const char* what) {
    const TensorType& given = in[static_cast<size_t>(i)];
    if (!(given == expected))
      fail("{} must be {} to go with parameter {}, got {}", what, expected.to_string(), parameter.to_string(),
           given.to_string());
  };
  const TensorType codes{DType::u8, parameter.shape};
  const TensorType scales{DType::f32, ops::moment_scales_shape(parameter.shape)};
  check(op.m(k), codes, "the codes of m");
  check(op.v(k), codes, "the codes of v");
  check(op.m_scales(k), scales, "the scales of m");
  check(op.v_scales(k), scales, "the scales of v");
}

// Requires that the number of inputs was checked.
void check_halves(const ops::AdamUpdate& op, Types in) {
  const auto input = [&](int i) -> const TensorType& { return in[static_cast<size_t>(i)]; };
  int parameter = 0;
  for (int i = 0; i < op.num_holders(); ++i) {
    const TensorType &high = input(op.holder(i)), &low = input(op.lower(i));
    if (high.dtype != DType::bf16 || low.dtype != DType::i16 || !(high.shape == low.shape))
      fail("the halves must be bf16 and i16 of one shape, got {} and {}", high.to_string(), low.to_string());
    const int left = op.num_parameters() - parameter;
    if (op.held_by(i) < 1 || op.held_by(i) > left)
      fail("halves {} are to hold {} parameters, {} are left", i, op.held_by(i), left);
    Dim held(0);
    for (int64_t k = 0; k < op.held_by(i); ++k) held = held + input(op.gradient(parameter++)).shape.numel();
    if (!(held == high.shape.numel()))
      fail("halves of {} are to hold parameters of {} elements", high.to_string(), held.to_string());
  }
  if (parameter != op.num_parameters())
    fail("the halves hold {} parameters, {} were given", parameter, op.num_parameters());
}

}  // namespace

namespace ops {

std::vector<TensorType> SgdUpdate::infer(Types in) const {
  const bool has_buffers = momentum != 0;
  if (nesterov && (momentum <= 0 || dampening != 0))
    fail("Nesterov momentum needs a momentum and no dampening, got momentum {} and dampening {}", momentum,
         dampening);
  const int64_t each = 2 + has_buffers, scalars = 2 + has_scale, given = static_cast<int64_t>(in.size());
  if (parameters < 1 || parameters > given || given != each * parameters + scalars)
    fail(
        "sgd_update of {} parameters with these attributes takes {} inputs each and {} scalars, {} were "
        "given",
        parameters, each, scalars, given);
  const auto input = [&](int i) -> const TensorType& { return in[static_cast<size_t>(i)]; };
  check_real_scalar(input(lr()), "lr");
  check_step(input(step()));
  if (has_scale) check_real_scalar(in.back(), "scale");
  check_skip(skip_nonfinite, has_scale);
  std::vector<TensorType> out;
  for (int k = 0; k < parameters; ++k) {
    check_parameter(input(k), input(gradient(k)));
    out.push_back(input(k));
  }
  for (int k = 0; has_buffers && k < parameters; ++k) {
    check_state(input(k), input(buffer(k)), "the momentum buffer");
    out.push_back(input(buffer(k)));
  }
  return out;
}

std::vector<InPlace> SgdUpdate::in_place(Types, Types) const {
  std::vector<InPlace> pairs;
  for (int k = 0; k < parameters; ++k) pairs.push_back({k, k});
  for (int k = 0; momentum != 0 && k < parameters; ++k)
    pairs.push_back({static_cast<int>(parameters) + k, buffer(k)});
  return pairs;
}

std::vector<TensorType> AdamUpdate::infer(Types in) const {
  const size_t n = weight_decays.size(), halves = parameters_per_half.size();
  const size_t expected = 2u + has_scale + (is_halved() ? 2 * halves : n) + (has_codes() ? 5 : 3) * n;
  if (n == 0 || in.size() != expected)
    fail("the attributes ask for {} inputs for {} parameters, {} were given", expected, n, in.size());
  check_real_scalar(in[0], "lr");
  check_step(in[1]);
  if (has_scale) check_real_scalar(in[2], "scale");
  check_skip(skip_nonfinite, has_scale);
  const auto input = [&](int i) -> const TensorType& { return in[static_cast<size_t>(i)]; };
  for (int k = 0; k < num_parameters(); ++k) {
    const TensorType& gradient_type = input(gradient(k));
    const TensorType parameter = is_halved() ? TensorType{DType::f32, gradient_type.shape} : input(holder(k));
    check_parameter(parameter, gradient_type);
    if (has_codes()) {
      check_codes(*this, in, parameter, k);
      continue;
    }
    check_state(parameter, input(m(k)), "m");
    check_state(parameter, input(v(k)), "v");
  }
  if (is_halved()) check_halves(*this, in);
  std::vector<TensorType> out;
  for (const InPlace pair : in_place()) out.push_back(input(pair.input));
  return out;
}

std::vector<InPlace> AdamUpdate::in_place() const {
  std::vector<InPlace> pairs;
  for (int input = holder(0); input < num_inputs(); ++input)
    if (input < gradient(0) || input >= m(0)) pairs.push_back({output_of(input), input});
  return pairs;
}

bool can_have_moment_codes(const TensorType& parameter) {
  const Shape& shape = parameter.shape;
  if (parameter.dtype == DType::f64 || !shape.is_constant() || parameter.numel() % kMomentBlock != 0)
    return false;
  return shape.rank() <= 2 || parameter.numel() == 0 ||
         parameter.numel() / shape[0].value() % kMomentBlock == 0;
}

Shape moment_scales_shape(const Shape& parameter) {
  int axis = parameter.rank() - 1;
  int64_t rest = 1;
  for (; axis >= 0; --axis)
    if ((rest *= parameter[axis].value()) % kMomentBlock == 0) break;
  Shape scales;
  for (int i = 0; i < axis; ++i) scales.push_back(parameter[i]);
  scales.push_back(Dim(rest / kMomentBlock));
  return scales;
}

std::vector<TensorType> LionUpdate::infer(Types in) const {
  check_parameter(in[0], in[1]);
  check_state(in[0], in[2], "the momentum");
  check_real_scalar(in[3], "lr");
  if (in.size() > 4) check_real_scalar(in[4], "scale");
  check_skip(skip_nonfinite, in.size() > 4);
  return {in[0], in[2]};
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

void append(std::vector<Value>& inputs, Value optional) {
  if (optional) inputs.push_back(optional);
}

}  // namespace

std::span<const OpDef* const> optimizer_ops() {
  return kOpDefs<ops::SgdUpdate, ops::AdamUpdate, ops::LionUpdate, ops::SumSquares>;
}

ParameterAndMomentum sgd_update(Value parameter, Value gradient, Value momentum_buffer, Value lr, Value step,
                                const SgdOptions& options, Value scale) {
  const ops::SgdUpdate op{options, bool(scale)};
  if (options.momentum != 0 && !momentum_buffer) fail("sgd_update with momentum needs a momentum buffer");
  std::vector<Value> inputs = {parameter, gradient, lr, step};
  if (options.momentum != 0) inputs.push_back(momentum_buffer);
  append(inputs, scale);
  const auto out = emit_node(op, inputs);
  return {out[0], out.size() > 1 ? out[1] : Value{}};
}

namespace {

std::vector<Value> emit_adam(const AdamOptions& options, MomentFormat moments, Value lr, Value step,
                             Value scale, std::initializer_list<Value> operands) {
  const ops::AdamUpdate op{options.beta1,
                           options.beta2,
                           options.eps,
                           options.decoupled,
                           bool(scale),
                           options.skip_nonfinite,
                           {options.weight_decay},
                           {},
                           moments};
  std::vector<Value> inputs = {lr, step};
  append(inputs, scale);
  inputs.insert(inputs.end(), operands);
  return emit_node(op, inputs);
}

}  // namespace

AdamResult adam_update(Value parameter, Value gradient, Value m, Value v, Value lr, Value step,
                       const AdamOptions& options, Value scale) {
  const auto out = emit_adam(options, MomentFormat::kF32, lr, step, scale, {parameter, gradient, m, v});
  return {out[0], out[1], out[2]};
}

AdamResult adam_update(Value parameter, Value gradient, const CodedMoments& moments, Value lr, Value step,
                       const AdamOptions& options, Value scale) {
  const auto out = emit_adam(options, MomentFormat::k8bit, lr, step, scale,
                             {parameter, gradient, moments.m, moments.v, moments.m_scales, moments.v_scales});
  return {out[0], out[1], out[2], out[3], out[4]};
}

ParameterAndMomentum lion_update(Value parameter, Value gradient, Value momentum, Value lr,
                                 const LionOptions& options, Value scale) {
  std::vector<Value> inputs = {parameter, gradient, momentum, lr};
  append(inputs, scale);
  const auto out = emit_node(options, inputs);
  return {out[0], out[1]};
}

Value global_norm(const std::vector<Value>& gradients, bool one_by_one) {
  if (gradients.empty()) fail("global_norm was given no gradients");
  if (!one_by_one || gradients.size() == 1) return sqrt(cast(emit(ops::SumSquares{}, gradients), DType::f32));
  std::vector<Value> squares;
  for (Value gradient : gradients) squares.push_back(cast(emit(ops::SumSquares{}, {gradient}), DType::f32));
  return sqrt(sum(stack(squares)));
}

Value clip_scale(Value norm, double max_norm) { return minimum(max_norm / (norm + 1e-6), 1.0); }

Value clip_by_value(Value gradient, double limit) { return clamp(gradient, -limit, limit); }

}  // namespace genesis
