// Losses, and the optimizers of ONNX's preview of training.
#include <cmath>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::onnx {
namespace {

// log_probabilities [batch, classes, ...], targets [batch, ...]
Value negative_log_likelihood(Call& call, Value log_probabilities) {
  const Value target = cast(call.tensor(1), DType::i64);
  const std::string reduction = call.text("reduction", "mean");
  const DType dtype = log_probabilities.dtype();
  Value place = target, counts = call.g().ones(target.shape(), dtype);
  if (call.has_attribute("ignore_index")) {
    const Value is_ignored = target == call.attribute("ignore_index", 0);
    place = where(is_ignored, scalar_like(target, 0), target);
    counts = where(is_ignored, Scalar(0.0), counts);
  }
  if (call.has(2)) {
    const Value weights = index_select(call.tensor(2), 0, reshape(place, {place.shape().numel()}));
    counts = counts * reshape(weights, target.shape());
  }
  const Value taken = squeeze(gather(log_probabilities, 1, unsqueeze(place, 1)), 1);
  const Value loss = where(counts == 0.0, Scalar(0.0), -taken * counts);
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum(loss);
  if (reduction != "mean") fail("its reduction is '{}': expected none, sum or mean", reduction);
  return sum(loss) / sum(counts);
}
Results nll(Call& call) { return {item_of(negative_log_likelihood(call, call.tensor(0)))}; }
Results cross_entropy_of_scores(Call& call) {
  const Value log_probabilities = log_softmax(call.tensor(0), 1);
  return {item_of(negative_log_likelihood(call, log_probabilities)), item_of(log_probabilities)};
}

// --- optimizers: rate, step, then tensors..., gradients..., states...

struct Updated {
  Value tensor;
  std::vector<Value> states;
};
template <Updated (*update)(Call&, Value, Value, const std::vector<Value>&), int states>
Results updated(Call& call) {
  const size_t groups = 2 + states, count = (call.count() - 2) / groups;
  if (call.count() < 2 || (call.count() - 2) % groups != 0) fail("it has {} inputs", call.count());
  Results tensors, rest[states];
  for (size_t i = 0; i < count; ++i) {
    std::vector<Value> own;
    for (size_t k = 0; k < states; ++k) own.push_back(call.tensor(2 + (2 + k) * count + i));
    const Updated result = update(call, call.tensor(2 + i), call.tensor(2 + count + i), own);
    tensors.push_back(item_of(result.tensor));
    for (size_t k = 0; k < states; ++k) rest[k].push_back(item_of(result.states[k]));
  }
  for (const Results& some : rest) tensors.insert(tensors.end(), some.begin(), some.end());
  return tensors;
}
Value rate(Call& call) { return reshape(call.tensor(0), {}); }
Value step(Call& call, DType dtype) { return cast(reshape(call.tensor(1), {}), dtype); }

Updated with_momentum(Call& call, Value x, Value g, const std::vector<Value>& states) {
  const double alpha = call.real("alpha", 0), beta = call.real("beta", 0);
  const std::string mode = call.text("mode", "standard");
  g = g + x * call.real("norm_coefficient", 0);
  const Value factor =
      where(step(call, x.dtype()) > 0.0, full(call.graph(), {}, beta, x.dtype()), Scalar(1.0));
  const Value v = states[0] * alpha + g * factor;
  return {x - rate(call) * (mode == "nesterov" ? g + v * alpha : v), {v}};
}
Updated with_sum_of_squares(Call& call, Value x, Value g, const std::vector<Value>& states) {
  const Value r = rate(call) / (step(call, x.dtype()) * call.real("decay_factor", 0) + 1.0);
  g = g + x * call.real("norm_coefficient", 0);
  const Value h = states[0] + square(g);
  return {x - r * g / (sqrt(h) + call.real("epsilon", 1e-6)), {h}};
}
Updated with_moments(Call& call, Value x, Value g, const std::vector<Value>& states) {
  const double alpha = call.real("alpha", 0.9), beta = call.real("beta", 0.999),
               after = call.real("norm_coefficient_post", 0);
  g = g + x * call.real("norm_coefficient", 0);
  const Value v = states[0] * alpha + g * (1 - alpha), h = states[1] * beta + square(g) * (1 - beta);
  const Value t = step(call, x.dtype());
  const Value corrected = rate(call) * sqrt(1.0 - exp(t * std::log(beta))) / (1.0 - exp(t * std::log(alpha)));
  const Value r = where(t > 0.0, corrected, rate(call));
  const Value y = x - r * v / (sqrt(h) + call.real("epsilon", 1e-6));
  return {y * (1 - after), {v, h}};
}

}  // namespace

const Operators& loss_operators() {
  static const Operators kOperators = {
      {"NegativeLogLikelihoodLoss", nll},
      {"SoftmaxCrossEntropyLoss", cross_entropy_of_scores},
      {"ai.onnx.preview.training::Adagrad", updated<with_sum_of_squares, 1>},
      {"ai.onnx.preview.training::Adam", updated<with_moments, 2>},
      {"ai.onnx.preview.training::Momentum", updated<with_momentum, 1>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
