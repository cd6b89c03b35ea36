// The losses that are compositions: a cast to f32 at least, an elementwise formula, then a reduction.
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

Value wide(Value x) { return cast(x, wide_dtype(x.dtype())); }

Value reduce(Value loss, Reduction reduction) {
  if (reduction == Reduction::kNone) return loss;
  return reduction == Reduction::kMean ? mean(loss) : sum(loss);
}

Value weighted(Value loss, Value weight) { return weight ? loss * wide(weight) : loss; }

void check_pair(const char* loss, Value x, Value target) {
  if (!is_float(x.dtype()) || !is_float(target.dtype()))
    fail("{} needs floating-point tensors, got {} and {}", loss, x.type().to_string(),
         target.type().to_string());
  broadcast(x.shape(), target.shape());
}

}  // namespace

namespace ops {

std::vector<TensorType> Bce::infer(Types in) const {
  if (!(in[0] == in[1]) || !is_float(in[0].dtype))
    fail("bce needs probabilities and targets of one floating-point type, got {} and {}", in[0].to_string(),
         in[1].to_string());
  return {in[0]};
}

// PyTorch's gradient, (p - t) / max(p (1 - p), 1e-12): finite at 0 and 1, where the clamped logarithms are flat.
void Bce::grad(GradientContext& g) const {
  const Value p = g.input(0), t = g.input(1);
  if (g.wants(0)) g.set(0, g.dy() * (p - t) / maximum(p * (1.0 - p), 1e-12));
  if (g.wants(1)) g.set(1, g.dy() * (maximum(log1p(-p), -100.0) - maximum(log(p), -100.0)));
}

}  // namespace ops

std::span<const OpDef* const> pointwise_loss_ops() { return kOpDefs<ops::Bce>; }

Value nll_loss(Value log_probabilities, Value target, Value weight, int64_t ignore_index,
               Reduction reduction) {
  const Value x = wide(log_probabilities);
  Shape rows = x.shape();
  if (x.rank() < 1 || !is_integer(target.dtype())) fail("nll_loss needs [..., classes] and integer targets");
  rows = Shape(std::vector<Dim>(rows.begin(), rows.end() - 1));
  if (!(target.shape() == rows))
    fail("nll_loss: log_probabilities {} have their classes last, so targets must have shape {}, got {}",
         x.shape().to_string(), rows.to_string(), target.shape().to_string());
  const Value counts = ne(target, scalar_like(target, ignore_index));
  const Value index = where(counts, target, scalar_like(target, 0));
  const Value picked = squeeze(gather(x, -1, unsqueeze(index, -1)), -1);
  const Value zero = scalar_like(x, 0.0);
  const Value w = weight ? reshape(index_select(wide(weight), 0, flatten(index)), rows) : scalar_like(x, 1.0);
  const Value loss = where(counts, -(picked * w), zero);
  if (reduction == Reduction::kMean) return sum(loss) / sum(where(counts, w, zero));
  return reduce(loss, reduction);
}

Value mse_loss(Value x, Value target, Reduction reduction) {
  check_pair("mse_loss", x, target);
  return reduce(square(wide(x) - wide(target)), reduction);
}

Value l1_loss(Value x, Value target, Reduction reduction) {
  check_pair("l1_loss", x, target);
  return reduce(abs(wide(x) - wide(target)), reduction);
}

Value smooth_l1_loss(Value x, Value target, double beta, Reduction reduction) {
  check_pair("smooth_l1_loss", x, target);
  if (beta < 0) fail("smooth_l1_loss: beta is {}, expected at least 0", beta);
  if (beta == 0) return l1_loss(x, target, reduction);
  const Value d = abs(wide(x) - wide(target));
  return reduce(where(lt(d, scalar_like(d, beta)), square(d) * (0.5 / beta), d - 0.5 * beta), reduction);
}

Value huber_loss(Value x, Value target, double delta, Reduction reduction) {
  check_pair("huber_loss", x, target);
  if (!(delta > 0)) fail("huber_loss: delta is {}, expected more than 0", delta);
  const Value d = abs(wide(x) - wide(target));
  return reduce(where(le(d, scalar_like(d, delta)), square(d) * 0.5, (d - 0.5 * delta) * delta), reduction);
}

Value bce_loss(Value probabilities, Value target, Value weight, Reduction reduction) {
  check_pair("bce_loss", probabilities, target);
  const Value p = wide(probabilities);
  return reduce(weighted(emit(ops::Bce{}, {p, cast(target, p.dtype())}), weight), reduction);
}

// (1 - t) softplus(x) + pos_weight t softplus(-x): two terms that are not negative, so nothing cancels for any x. Above the
// threshold, log1p(exp(x)) rounds to x even in f64.
Value bce_with_logits_loss(Value x, Value target, Value weight, Value pos_weight, Reduction reduction) {
  check_pair("bce_with_logits_loss", x, target);
  const Value z = wide(x), t = wide(target);
  Value positive = t * softplus(-z, 1.0, 40.0);
  if (pos_weight) positive = positive * wide(pos_weight);
  return reduce(weighted((1.0 - t) * softplus(z, 1.0, 40.0) + positive, weight), reduction);
}

Value kl_div_loss(Value input, Value target, bool log_target, Reduction reduction) {
  check_pair("kl_div_loss", input, target);
  const Value x = wide(input), t = wide(target);
  if (log_target) return reduce(exp(t) * (t - x), reduction);
  const Value safe = where(eq(t, scalar_like(t, 0.0)), scalar_like(t, 1.0), t);  // 0 log 0 is 0
  return reduce(t * log(safe) - t * x, reduction);
}

}  // namespace genesis
