#include "builder/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::nn {
namespace {

using Kind = RopeScalingKind;

void check_positive(const char* name, double value) {
  if (!(value > 0) || !std::isfinite(value)) fail("{} is {}, it must be positive", name, value);
}

bool needs_original_positions(Kind kind) {
  return kind == Kind::kDynamic || kind == Kind::kLlama3 || kind == Kind::kYarn || kind == Kind::kLongRope;
}

// No model comes near this limit; without it a damaged configuration could ask for a table that fills the memory.
constexpr int64_t kMaxRotarySize = 1 << 20;

void check_factors(const char* name, const std::vector<double>& factors, int64_t rotary_size) {
  if (std::ssize(factors) != rotary_size / 2)
    fail("{} has {} numbers, expected one for each of the {} pairs that rotate", name, factors.size(),
         rotary_size / 2);
  for (const double factor : factors) check_positive(name, factor);
}

void check(int64_t rotary_size, const RopeScaling& s) {
  if (rotary_size > kMaxRotarySize)
    fail(
        "heads of {} elements (head_dim, or hidden_size / num_attention_heads): rope scaling takes at most "
        "{}",
        rotary_size, kMaxRotarySize);
  check_positive("rope_factor", s.factor);
  check_positive("rope_attention_factor", s.attention_factor);
  if (needs_original_positions(s.kind) && s.original_positions <= 0)
    fail(
        "rope_original_positions is {}: scaling of kind {} needs how long the texts were that the model was "
        "trained on",
        s.original_positions, EnumNames<Kind>::names[static_cast<size_t>(s.kind)]);
  if (s.kind == Kind::kLlama3 && !(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor))
    fail("rope_low_freq_factor {} and rope_high_freq_factor {}: the second must be greater, both positive",
         s.low_freq_factor, s.high_freq_factor);
  if (s.kind == Kind::kYarn && !(s.beta_slow > 0 && s.beta_fast >= s.beta_slow))
    fail("rope_beta_fast {} and rope_beta_slow {}: the first must not be less, both positive", s.beta_fast,
         s.beta_slow);
  if (s.kind == Kind::kDynamic && rotary_size <= 2)
    fail("dynamic rope scaling needs heads of more than 2 elements, got {}", rotary_size);
  if (s.kind == Kind::kLongRope) {
    check_factors("rope_short_factors", s.short_factors, rotary_size);
    check_factors("rope_long_factors", s.long_factors, rotary_size);
  }
  if (!(s.proportion >= 0 && s.proportion <= 1))
    fail("rope_proportion is {}, it must be between 0 and 1", s.proportion);
}

std::vector<double> exponents(int64_t rotary_size) {
  std::vector<double> of_pairs;
  for (int64_t i = 0; i < rotary_size / 2; ++i)
    of_pairs.push_back(-2.0 * static_cast<double>(i) / static_cast<double>(rotary_size));
  return of_pairs;
}

std::vector<double> plain(double theta, int64_t rotary_size) {
  std::vector<double> frequencies = exponents(rotary_size);
  for (double& f : frequencies) f = std::pow(theta, f);
  return frequencies;
}

// Keeps pairs of high frequency, divides pairs of low frequency by the factor, and interpolates between both.
double llama3(double frequency, const RopeScaling& s) {
  const double turns = static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
  if (turns < s.low_freq_factor) return frequency / s.factor;
  if (turns > s.high_freq_factor) return frequency;
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

// Returns the pair, as a real number, that makes this many turns within the original positions.
double pair_of_turns(double turns, double theta, int64_t rotary_size, const RopeScaling& s) {
  return static_cast<double>(rotary_size) *
         std::log(static_cast<double>(s.original_positions) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

std::vector<double> yarn(double theta, int64_t rotary_size, const RopeScaling& s) {
  double low = pair_of_turns(s.beta_fast, theta, rotary_size, s),
         high = pair_of_turns(s.beta_slow, theta, rotary_size, s);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_size - 1));
  if (low == high) high += 0.001;  // avoids a division by zero, as transformers does
  std::vector<double> frequencies = plain(theta, rotary_size);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / s.factor * slowed + frequencies[i] * (1 - slowed);
  }
  return frequencies;
}

double grown_theta(double theta, int64_t rotary_size, const RopeScaling& s, int64_t length) {
  const auto original = static_cast<double>(s.original_positions), size = static_cast<double>(rotary_size),
             so_far = std::max(static_cast<double>(length), original);
  return theta * std::pow(s.factor * so_far / original - (s.factor - 1), size / (size - 2));
}

}  // namespace

std::vector<double> rope_frequencies(double theta, int64_t rotary_size, const RopeScaling& s,
                                     int64_t length) {
  check(rotary_size, s);
  if (s.kind == Kind::kYarn) return yarn(theta, rotary_size, s);
  if (s.kind == Kind::kDynamic) return plain(grown_theta(theta, rotary_size, s, length), rotary_size);
  std::vector<double> frequencies = plain(theta, rotary_size);
  const auto turning = static_cast<size_t>(s.proportion * static_cast<double>(rotary_size) / 2);
  const auto& divisors = length > s.original_positions ? s.long_factors : s.short_factors;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    if (s.kind == Kind::kLongRope) frequencies[i] /= divisors[i];
    if (s.kind == Kind::kLlama3) frequencies[i] = llama3(frequencies[i], s);
    if (s.kind == Kind::kLinear || s.kind == Kind::kProportional) frequencies[i] /= s.factor;
    if (s.kind == Kind::kProportional && i >= turning) frequencies[i] = 0;
  }
  return frequencies;
}

RopeFrequencies::RopeFrequencies(const Scope& scope, double theta, int64_t rotary_size,
                                 const RopeScaling& scaling)
    : theta_(theta), rotary_size_(rotary_size), scaling_(scaling) {
  if (scaling.kind == Kind::kNone) return;
  std::vector<double> values = rope_frequencies(theta, rotary_size, scaling);
  const bool dynamic = scaling.kind == Kind::kDynamic;
  if (dynamic) values = exponents(rotary_size);
  const auto table = [&](const char* name, const std::vector<double>& of_pairs) {
    return scope.model().add_tensor(name, Tensor::of<double>({std::ssize(of_pairs)}, of_pairs));
  };
  table_ = table(dynamic ? "rope_exponents" : "rope_frequencies", values);
  if (scaling.kind == Kind::kLongRope)
    long_table_ = table("long_rope_frequencies",
                        rope_frequencies(theta, rotary_size, scaling, scaling.original_positions + 1));
}

// Computes rope_frequencies() inside the graph.
Value RopeFrequencies::of_length(Graph& graph, Value length) const {
  if (scaling_.kind == Kind::kLongRope) {
    const Value is_long =
        gt(cast(length, DType::f64),
           scalar_like(cast(length, DType::f64), static_cast<double>(scaling_.original_positions)));
    return where(is_long.rank() == 0 ? is_long : unsqueeze(is_long, 1), graph.constant(long_table_),
                 graph.constant(table_));
  }
  const auto original = static_cast<double>(scaling_.original_positions),
             size = static_cast<double>(rotary_size_);
  const Value so_far = maximum(cast(length, DType::f64), original);
  const Value growth = so_far * scaling_.factor / original - (scaling_.factor - 1);
  const Value theta = pow(growth, size / (size - 2)) * theta_;
  return pow(theta.rank() == 0 ? theta : unsqueeze(theta, 1), graph.constant(table_));
}

}  // namespace genesis::nn
