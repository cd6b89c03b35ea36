// Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011). The RNG state is i64[2] {seed, step}, a model state of role kRandom; each random node owns a stream
// number, so the element i of a node's result is a pure function of (seed, step, stream, i): the same bits on
// every device, with any number of threads, at replay and rematerialisation.
#pragma once

#include "schema/graph.h"

namespace genesis {

Value rand(Value rng, Shape shape, DType dtype = DType::f32);   // uniform in [0, 1)
Value randn(Value rng, Shape shape, DType dtype = DType::f32);  // standard normal (Box-Muller)
Value randint(Value rng, Shape shape, int64_t low, int64_t high, DType dtype = DType::i64);  // in [low, high)
Value bernoulli(Value rng, Value probability);  // 0 or 1 in probability's dtype
Value multinomial(Value rng, Value weights, int64_t num_samples,
                  bool replacement = false);  // rows of the last axis; i64
Value dropout(Value rng, Value x, double p);  // zero with probability p, else x / (1 - p)
// One token per row of logits [..., vocab] -> i64 [...]: temperature, then top-k (0: off), then top-p (1:
// off). Temperature 0 is argmax.
struct SampleOptions {
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
};
Value random_sample(Value rng, Value logits, const SampleOptions& options = {});
// The same with the three numbers as run-time data: f32 scalar, i64 scalar, f32 scalar.
Value random_sample(Value rng, Value logits, Value temperature, Value top_k, Value top_p);
// The state for the next run: step + 1. Declare it as the update of the RNG state.
Value rng_next(Value rng);

}  // namespace genesis
