// Reductions, softmax, norms and losses.
#include <cmath>
#include <map>

#include "models/formats/onnx/export/rules.h"
#include "schema/core/error.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::models::onnx {
namespace {

Out over_axes(Translation& t, const std::string& op, const Out& x, const std::vector<int64_t>& axes,
              bool keep_dims) {
  const Out given = axes.empty() ? Out{"", DType::i64} : t.e.integers(axes);
  return t.e.add(op, {x, given}, onnx_attribute("keepdims", int64_t{keep_dims}));
}

Out reduced(Translation& t) {
  static const std::map<std::string_view, const char*> kNames = {
      {"sum", "ReduceSum"}, {"mean", "ReduceMean"}, {"prod", "ReduceProd"},
      {"max", "ReduceMax"}, {"min", "ReduceMin"},   {"logsumexp", "ReduceLogSumExp"}};
  const auto op = t.as<ops::Sum>();
  return over_axes(t, kNames.at(t.op()), t.e.cast(t.in(), t.result().dtype), op.axes, op.keep_dims);
}
Out truth(Translation& t) {
  const auto op = t.as<ops::Any>();
  const Out x = t.e.cast(t.e.cast(t.in(), DType::boolean), DType::i32);
  const Out found = over_axes(t, t.op() == "any" ? "ReduceMax" : "ReduceMin", x, op.axes, op.keep_dims);
  return t.e.cast(found, DType::boolean);
}
Out moment(Translation& t) {
  const auto op = t.as<ops::Var>();
  const Out x = t.wide();
  const Out centered = t.e.add("Sub", {x, over_axes(t, "ReduceMean", x, op.axes, true)});
  Dim count = 1;
  for (const int axis : normalize_axes(op.axes, static_cast<int>(t.rank()))) count = count * t.shape()[axis];
  const Out squares = over_axes(t, "ReduceSum", t.e.add("Mul", {centered, centered}), op.axes, op.keep_dims);
  const Out degrees = t.e.add("Max", {t.e.dim(count - Dim(op.correction)), t.e.integers({0})});
  const Out divisor = t.e.cast(t.e.add("Squeeze", {degrees, t.e.integers({0})}), x.dtype);
  const Out variance = t.e.add("Div", {squares, divisor});
  return t.e.cast(t.op() == "std" ? t.e.add("Sqrt", {variance}) : variance, t.result().dtype);
}
Out place(Translation& t) {
  const auto op = t.as<ops::ArgMax>();
  return t.e.add(t.op() == "argmax" ? "ArgMax" : "ArgMin", {t.in()},
                 onnx_attribute("axis", t.axis(op.axis)) + onnx_attribute("keepdims", int64_t{op.keep_dims}),
                 DType::i64);
}
Out summed_along(Translation& t) {
  const auto op = t.as<ops::CumSum>();
  return t.e.add("CumSum", {t.e.cast(t.in(), t.result().dtype), t.e.integers({t.axis(op.axis)})},
                 onnx_attribute("reverse", int64_t{op.reverse}));
}

// --- softmax

Out softmax_rule(Translation& t) {
  const Out y = t.e.add(t.op() == "softmax" ? "Softmax" : "LogSoftmax", {t.wide()},
                        onnx_attribute("axis", t.axis(t.as<ops::Softmax>().axis)));
  return t.e.cast(y, t.result().dtype);
}
Out causal(Translation& t) {
  const Out x = scaled_by(t.e, t.wide(), t.as<ops::CausalSoftmax>().scale);
  const Shape& shape = t.shape();
  const Dim queries = shape[shape.rank() - 2], keys = shape[shape.rank() - 1];
  const Out last = t.e.add("Add", {t.e.unsqueeze(t.e.counted(queries), {1}), t.e.dim(keys - queries)});
  const Out visible = t.e.add("LessOrEqual", {t.e.counted(keys), last}, "", DType::boolean);
  const Out scores = t.e.add("Where", {visible, x, t.e.number(-1e30, x.dtype)}, "", x.dtype);
  Out y = t.e.add("Softmax", {scores}, onnx_attribute("axis", int64_t{-1}));
  // A query that sees no key has NaN in every place, and others have zeros where they see nothing.
  if (!(queries == keys)) {
    const Out sees = t.e.add("GreaterOrEqual", {last, t.e.integers({0})}, "", DType::boolean);
    y = t.e.add("Where", {sees, y, t.e.number(std::nan(""), x.dtype)}, "", x.dtype);
  }
  return t.e.cast(y, t.result().dtype);
}

// --- norms

Out root_mean_square(Translation& t) {
  const auto op = t.as<ops::RmsNorm>();
  const Out weight = op.has_weight ? t.wide(1) : Out{};
  return t.e.cast(rms_norm_of(t.e, t.wide(), op.eps, op.num_axes, weight), t.result().dtype);
}

Out layer_norm_rule(Translation& t) {
  const auto op = t.as<ops::LayerNorm>();
  const Out x = t.wide();
  std::vector<int64_t> sizes;
  for (int64_t axis = t.rank() - op.num_axes; axis < t.rank(); ++axis)
    sizes.push_back(t.shape()[static_cast<int>(axis)].value());
  Out weight, bias;
  if (op.has_weight) weight = t.wide(1);
  if (op.has_bias) bias = t.wide(1 + op.has_weight);
  if (!op.has_weight) weight = t.e.add("Expand", {t.e.number(1, x.dtype), t.e.integers(sizes)});
  const Out y = t.e.add("LayerNormalization", {x, weight, bias},
                        onnx_attribute("axis", -op.num_axes) + onnx_attribute("epsilon", op.eps));
  return t.e.cast(y, t.result().dtype);
}

// --- losses

Out cross_entropy_rule(Translation& t) {
  const auto op = t.as<ops::CrossEntropy>();
  if (op.label_smoothing != 0 || op.with_lse || op.part.is_part() || is_float(t.type(1).dtype))
    fail(
        "it has label smoothing, probabilities as targets or parts of the classes, which ONNX's loss has "
        "not");
  const Shape& shape = t.shape();
  const int last = shape.rank() - 1;
  Shape rows{1, shape[last]}, targets{1};
  for (int axis = 0; axis < last; ++axis) rows[0] = rows[0] * shape[axis];
  targets[0] = rows[0];
  const Out logits = t.e.reshape(t.wide(), shape, rows);
  const Out classes = t.e.reshape(t.e.cast(t.in(1), DType::i64), t.shape(1), targets);
  const char* kinds[] = {"none", "mean", "sum"};
  const std::string reduction = op.reduction == Reduction::kNone   ? kinds[0]
                                : op.reduction == Reduction::kMean ? kinds[1]
                                                                   : kinds[2];
  const Out weight = t.count() > 2 ? t.wide(2) : Out{};
  const Out loss =
      t.e.add("SoftmaxCrossEntropyLoss", {logits, classes, weight},
              onnx_attribute("reduction", reduction) + onnx_attribute("ignore_index", op.ignore_index));
  return op.reduction == Reduction::kNone ? t.e.reshape(loss, targets, t.result().shape) : loss;
}

}  // namespace

Out rms_norm_of(Emitter& e, const Out& x, double eps, int64_t num_axes, const Out& weight) {
  std::vector<int64_t> axes;
  for (int64_t axis = -num_axes; axis < 0; ++axis) axes.push_back(axis);
  const Out squares = e.add("Mul", {x, x});
  const Out mean = e.add("ReduceMean", {squares, e.integers(axes)}, onnx_attribute("keepdims", int64_t{1}));
  const Out root = e.add("Sqrt", {e.add("Add", {mean, e.number(eps, x.dtype)})});
  const Out y = e.add("Div", {x, root});
  return weight.name.empty() ? y : e.add("Mul", {y, weight});
}

const OpRules& reduction_rules() {
  static const OpRules kRules = {
      {"all", single<truth>},
      {"any", single<truth>},
      {"argmax", single<place>},
      {"argmin", single<place>},
      {"causal_softmax", single<causal>},
      {"cross_entropy", single<cross_entropy_rule>},
      {"cumsum", single<summed_along>},
      {"layer_norm", single<layer_norm_rule>},
      {"log_softmax", single<softmax_rule>},
      {"logsumexp", single<reduced>},
      {"max", single<reduced>},
      {"mean", single<reduced>},
      {"min", single<reduced>},
      {"prod", single<reduced>},
      {"rms_norm", single<root_mean_square>},
      {"softmax", single<softmax_rule>},
      {"std", single<moment>},
      {"sum", single<reduced>},
      {"var", single<moment>},
  };
  return kRules;
}

}  // namespace genesis::models::onnx
