// Rules of the cross-entropy ops. The other losses are compositions, in pointwise_loss.cpp.
#include "schema/ops/nn/loss.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

// [..., C] -> [...]
Shape row_shape(const Shape& logits) { return Shape(std::vector<Dim>(logits.begin(), logits.end() - 1)); }

bool is_index(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

void check_class_targets(const TensorType& target, const Shape& rows, const Shape& logits) {
  if (!is_index(target.dtype)) fail("class targets must be i32 or i64, got {}", target.to_string());
  if (!(target.shape == rows))
    fail("logits {} have their classes last, so class targets must have shape {}, got {}", logits.to_string(),
         rows.to_string(), target.shape.to_string());
}

void check_cross_entropy(const TensorType& logits, const TensorType& target, const TensorType* weight,
                         double label_smoothing, int64_t ignore_index) {
  if (!is_float(logits.dtype) || logits.shape.rank() < 1)
    fail("cross_entropy needs floating-point logits [..., classes], got {}", logits.to_string());
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    fail("label_smoothing is {}, expected 0 to 1", label_smoothing);
  if (is_float(target.dtype)) {
    if (target.dtype != logits.dtype && target.dtype != wide_dtype(logits.dtype))
      fail("probability targets must have dtype {} or {}, got {}", name_of(logits.dtype),
           name_of(wide_dtype(logits.dtype)), name_of(target.dtype));
    if (!(target.shape == logits.shape))
      fail("probability targets must have the shape of the logits, {}, got {}", logits.shape.to_string(),
           target.shape.to_string());
    if (ignore_index >= 0)
      fail("ignore_index is {}, but probability targets have no index to ignore", ignore_index);
  } else {
    check_class_targets(target, row_shape(logits.shape), logits.shape);
  }
  const Shape classes = {logits.shape[logits.shape.rank() - 1]};
  if (weight && (!is_float(weight->dtype) || !(weight->shape == classes)))
    fail("weight must be a floating-point tensor of shape {}, got {}", classes.to_string(),
         weight->to_string());
}

// Checks the range of classes that the logits cover.
void check_part(const ops::IndexRange& part, const TensorType& logits, const TensorType& target,
                bool has_weight) {
  part.check(logits.shape[logits.shape.rank() - 1]);
  if (part.is_part() && (has_weight || is_float(target.dtype)))
    fail("a part of the classes goes with class targets and without weights");
}

// d loss / d probabilities = -(1 - smoothing) * weight * log_softmax(logits), divided by the number of rows for a mean.
Value probability_gradient(const ops::CrossEntropy& op, GradientContext& g) {
  const Value lse = g.output(1);
  const Value log_p = cast(g.input(0), lse.dtype()) - unsqueeze(lse, -1);
  Value dy = g.dy();
  if (op.reduction == Reduction::kNone) dy = unsqueeze(dy, -1);
  Value dt = log_p * dy * (op.label_smoothing - 1);
  if (g.num_inputs() > 2) dt = dt * cast(g.input(2), lse.dtype());
  if (op.reduction == Reduction::kMean) dt = dt / dim_value(g.graph(), lse.shape().numel(), lse.dtype());
  return dt;
}

}  // namespace

namespace ops {

std::vector<TensorType> CrossEntropy::infer(Types in) const {
  check_cross_entropy(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, label_smoothing, ignore_index);
  check_part(part, in[0], in[1], in.size() > 2);
  if (part.is_part() && (reduction != Reduction::kNone || !with_lse))
    fail("logits of some classes only (all_indices) require reduction \"none\" and with_lse");
  const DType dtype = wide_dtype(in[0].dtype);
  const Shape rows = row_shape(in[0].shape);
  std::vector<TensorType> out = {{dtype, reduction == Reduction::kNone ? rows : Shape{}}};
  if (with_lse) out.push_back({dtype, rows});
  return out;
}

std::vector<TensorType> CrossEntropyGrad::infer(Types in) const {
  check_cross_entropy(in[0], in[1], in.size() > 4 ? &in[4] : nullptr, label_smoothing, ignore_index);
  check_part(part, in[0], in[1], in.size() > 4);
  const TensorType lse{wide_dtype(in[0].dtype), row_shape(in[0].shape)};
  const TensorType dy{lse.dtype, reduction == Reduction::kNone ? lse.shape : Shape{}};
  if (!(in[2] == lse)) fail("lse must be {}, got {}", lse.to_string(), in[2].to_string());
  if (!(in[3] == dy)) fail("dy must be {}, got {}", dy.to_string(), in[3].to_string());
  return {in[0]};
}

std::vector<TensorType> LinearCrossEntropy::infer(Types in) const {
  const TensorType &x = in[0], &weight = in[1];
  if (x.shape.rank() < 1 || weight.shape.rank() != 2 || !(x.shape[x.shape.rank() - 1] == weight.shape[1]))
    fail("linear_cross_entropy needs x [..., H] and weight [V, H], got {} and {}", x.to_string(),
         weight.to_string());
  if (x.dtype != weight.dtype || !is_float(x.dtype))
    fail("x and weight must have one floating-point dtype, got {} and {}", x.to_string(), weight.to_string());
  if (reduction == Reduction::kNone) fail("linear_cross_entropy reduces by mean or sum");
  if (in.size() > 3 && (reduction != Reduction::kMean || !(in[3] == TensorType{DType::f64, {}})))
    fail("a divisor is f64[] and goes with reduction \"mean\", got {}", in[3].to_string());
  Shape logits = row_shape(x.shape);
  check_class_targets(in[2], logits, x.shape);
  logits.push_back(weight.shape[0]);
  check_cross_entropy({x.dtype, logits}, in[2], nullptr, label_smoothing, ignore_index);
  const DType dtype = wide_dtype(x.dtype);
  std::vector<TensorType> out = {{dtype, {}}};
  if (with_gradients) out.push_back({x.dtype == DType::f16 ? dtype : x.dtype, x.shape});
  if (with_gradients && !frozen_weight) out.push_back({dtype, weight.shape});
  return out;
}

Cost LinearCrossEntropy::cost(Types in, Types out) const {
  const double logits = product_flops(in[0], axis_size(in[1], 0));
  return {bytes_moved(in, out), static_cast<double>(out.size()) * logits};  // one product per output
}

double LinearCrossEntropy::sum_length(Types in, Types) const {
  return row_length(in[0]) + static_cast<double>(axis_size(in[1], 0)) + row_count(in[0]);
}

void CrossEntropy::grad(GradientContext& g) const {
  if (part.is_part()) fail("cross_entropy of a part of the classes has no gradient");
  CrossEntropy saving = *this;
  saving.with_lse = true;
  const Value lse = g.extra_output(to_attributes(saving), 1);
  const CrossEntropyGrad op{*this};
  std::vector<Value> inputs = {g.input(0), g.input(1), lse, g.dy()};
  if (g.num_inputs() > 2) inputs.push_back(g.input(2));
  if (g.wants(0)) g.set(0, emit(op, inputs));
  if (g.wants(1) && is_float(g.input(1).dtype())) g.set(1, probability_gradient(*this, g));
}

void LinearCrossEntropy::grad(GradientContext& g) const {
  LinearCrossEntropy saving = *this;
  saving.with_gradients = true;
  saving.frozen_weight = !g.wants(1);
  const Value dx = g.extra_output(to_attributes(saving), 1);
  g.set(0, cast(dx, g.output().dtype()) * g.dy());  // set() casts to the dtype of x
  if (g.wants(1)) g.set(1, g.output(2) * g.dy());
}

}  // namespace ops

std::span<const OpDef* const> loss_ops() {
  return kOpDefs<ops::CrossEntropy, ops::CrossEntropyGrad, ops::LinearCrossEntropy>;
}

Value cross_entropy(Value logits, Value target, const CrossEntropyOptions& options, Value weight) {
  const ops::CrossEntropy op{options};
  if (is_float(target.dtype()) && target.dtype() != logits.dtype())
    target = cast(target, wide_dtype(logits.dtype()));
  std::vector<Value> inputs = {logits, target};
  if (weight) inputs.push_back(weight);
  return emit(op, inputs);
}

Value linear_cross_entropy(Value x, Value weight, Value target, const CrossEntropyOptions& options) {
  if (options.reduction == Reduction::kNone) return cross_entropy(linear(x, weight), target, options);
  return emit(ops::LinearCrossEntropy{options}, {x, weight, target});
}

}  // namespace genesis
