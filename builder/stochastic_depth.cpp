#include "builder/stochastic_depth.h"

#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/random.h"

namespace genesis::nn {

StochasticDepth::StochasticDepth(const Scope& scope, double p, const std::string& mode)
    : Module(scope), p_(p), by_row_(mode == "row"), rng_(p > 0 ? scope.rng() : Parameter{}) {
  if (!(p >= 0 && p <= 1)) fail("layer '{}': probability {} is not between 0 and 1", path(), p);
  if (mode != "row" && mode != "batch")
    fail("layer '{}': its mode is '{}', expected 'row' or 'batch'", path(), mode);
}

Value StochasticDepth::forward(Value x) const {
  if (p_ == 0 || !x.graph->training()) return x;
  if (p_ == 1) return zeros_like(x);
  Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1)));
  if (by_row_) shape[0] = x.dim(0);
  const Value kept = bernoulli(rng_.in(*x.graph), full(*x.graph, shape, 1 - p_, x.dtype()));
  return x * (kept / (1 - p_));
}

}  // namespace genesis::nn
