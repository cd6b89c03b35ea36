// Counter-based random numbers (schema/core/philox.h). The RNG state is i64[2] {seed, step}, a model state of role kRandom. Each
// random node has its own stream number, so element i of a node's result is a pure function of (seed, step, stream, i): it is the
// same on every device, with any number of threads, and when it is replayed or rematerialized.
//
// The author functions give a node the number after the greatest stream of its graph. The number is an attribute, so it survives
// every rewrite; a copy of a node draws the same numbers on purpose (the gradient of dropout is dropout with the same stream).
// Code that runs the same nodes several times in one step must advance the state with rng_next.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// Common attributes of nodes that draw a tensor. Element i takes word i % 4 of Philox block i / 4. A normal number takes two
// words, so normal numbers come in pairs: elements 2j and 2j + 1 are the cosine and the sine of words 2j and 2j + 1. Uniform f64,
// and integers from a range above 2^32, take 64 bits: words 2 (i % 2) and 2 (i % 2) + 1 of block i / 2. Normal f64 numbers are
// the f32 ones.
struct Draw {
  Shape shape;
  DType dtype = DType::f32;
  int64_t stream = 0;
  static void fields(auto& self, auto&& visit) {
    visit("shape", self.shape);
    visit("dtype", self.dtype);
    visit("stream", self.stream);
  }
};

struct Rand : Draw {
  static constexpr OpInfo info{
      .name = "rand", .doc = "Uniform in [0, 1).", .precision = Precision::kExact, .random = true};
  std::vector<TensorType> infer(Types in) const;
};

struct Randn : Draw {
  static constexpr OpInfo info{.name = "randn",
                               .doc = "Standard normal (Box-Muller).",
                               .precision = Precision::kExact,
                               .random = true};
  std::vector<TensorType> infer(Types in) const;
};

struct RandInt : Draw {
  static constexpr OpInfo info{.name = "randint",
                               .doc = "Integers, uniform in [`low`, `high`).",
                               .precision = Precision::kExact,
                               .random = true};
  int64_t low = 0, high = 1;
  static void fields(auto& self, auto&& visit) {
    Draw::fields(self, visit);
    visit("low", self.low);
    visit("high", self.high);
  }
  std::vector<TensorType> infer(Types in) const;
};

struct Bernoulli {
  static constexpr OpInfo info{.name = "bernoulli",
                               .doc = "1 with the probability given for each element, else 0.",
                               .inputs = {2, 2},
                               .precision = Precision::kExact,
                               .random = true};
  int64_t stream = 0;
  static void fields(auto& self, auto&& visit) { visit("stream", self.stream); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Multinomial {
  static constexpr OpInfo info{.name = "multinomial",
                               .doc = "Indices drawn in proportion to each row of weights.",
                               .inputs = {2, 2},
                               .precision = Precision::kF32,
                               .random = true};
  int64_t num_samples = 1;
  bool replacement = false;
  int64_t stream = 0;
  static void fields(auto& self, auto&& visit) {
    visit("num_samples", self.num_samples);
    visit("replacement", self.replacement);
    visit("stream", self.stream);
  }
  std::vector<TensorType> infer(Types in) const;
};

// Inputs: rng, x. Its gradient is dropout with the same stream, applied to dy. If x is a slice of a tensor, `first` is the index
// of its first element in that tensor, a multiple of 4: the slice then loses the same elements as in the whole tensor.
struct Dropout {
  static constexpr OpInfo info{.name = "dropout",
                               .doc = "0 with probability `p`, else x / (1 - p).",
                               .inputs = {2, 2},
                               .precision = Precision::kFollow,
                               .random = true};
  double p = 0.5;
  int64_t stream = 0, first = 0;
  static void fields(auto& self, auto&& visit) {
    visit("p", self.p);
    visit("stream", self.stream);
    visit("first", self.first);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

// Inputs: rng, logits and, if the settings are data, temperature, top_k, top_p and min_p, which then replace the attributes.
// (Older files lack min_p.) If a logit is NaN, the run gives an error.
//
// rng may also be i64[2, rows...] with a seed and a step for each row of logits [rows..., vocab]. A row then draws by its own
// {seed, step} the same index as it would as the only row with i64[2], independently of the rows beside it. A setting that is
// data is one number for all rows, or [rows...].
struct SampleLogits {
  static constexpr OpInfo info{
      .name = "sample_logits",
      .doc = "One index per row of logits: `temperature`, then `top_k`, then `top_p`, then `min_p`.",
      .inputs = {2, 6},
      .precision = Precision::kF32,
      .random = true};
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  int64_t stream = 0;
  static void fields(auto& self, auto&& visit) {
    visit("temperature", self.temperature);
    visit("top_k", self.top_k);
    visit("top_p", self.top_p);
    visit("min_p", self.min_p);
    visit("stream", self.stream);
  }
  std::vector<TensorType> infer(Types in) const;
};

struct RngNext : NoAttributes {
  static constexpr OpInfo info{.name = "rng_next",
                               .doc = "The RNG state with its step advanced by one.",
                               .precision = Precision::kExact,
                               .in_place = kOverFirst};
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

Value rand(Value rng, Shape shape, DType dtype = DType::f32);   // uniform in [0, 1)
Value randn(Value rng, Shape shape, DType dtype = DType::f32);  // standard normal
Value randint(Value rng, Shape shape, int64_t low, int64_t high, DType dtype = DType::i64);  // in [low, high)
Value bernoulli(Value rng, Value probability);  // 0 or 1 in probability's dtype
// Draws `num_samples` indices for each row of the last axis, i64. (For tokens of a language model use sample_logits().) Weights
// need not sum to 1; without replacement no index is drawn twice.
Value multinomial(Value rng, Value weights, int64_t num_samples, bool replacement = false);
Value dropout(Value rng, Value x, double p);  // 0 with probability p, otherwise x / (1 - p)

// Draws one token per row of logits [..., vocab] -> i64 [...]. rng is i64[2], or i64[2, ...] with a seed and a step for each row,
// which then draws the same as it would alone. Applies temperature, then top-k (0: off), then top-p (1: off), then min-p (0:
// off). Temperature 0 is argmax. Top-p keeps the smallest set of most probable tokens whose probabilities sum to p or more; min-p
// keeps tokens whose probability is at least p times that of the most probable one (Nguyen et al., "Turning Up the Heat: Min-p
// Sampling", 2024).
using SampleOptions = ops::SampleLogits;  // `stream` is ignored: the node gets the graph's next one
Value sample_logits(Value rng, Value logits, const SampleOptions& options = {});
// The same with settings that are run-time data (f32, i64, f32, f32), one number for all rows or one per row. An empty min_p
// turns min-p off.
Value sample_logits(Value rng, Value logits, Value temperature, Value top_k, Value top_p, Value min_p = {});

// Returns the state for the next run: step + 1. Declare it as the update of the RNG state.
Value rng_next(Value rng);

}  // namespace genesis
