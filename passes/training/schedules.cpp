#include "passes/training/schedules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "passes/training/plateau.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::optim {
namespace {

// All rates are computed in f64, as Python does. `t` is the number of steps done (after the warm-up if the schedule has one),
// and `lr` the rate that the schedule starts from.

// Returns the value on half a cosine from `start` at progress 0 to `end` at progress 1.
Value along_cosine(Value start, Value end, Value progress) {
  return (cos(progress * std::numbers::pi) + 1.0) * ((start - end) / 2.0) + end;
}
Value along_cosine(Value start, double end, Value progress) {
  return along_cosine(start, scalar_like(start, end), progress);
}

Value power(double base, Value exponent) { return pow(scalar_like(exponent, base), exponent); }

// Rises from 0 to 1 at step `total`.
template <class S>
Value progress_of(const S& s, Value t) {
  const double length = std::max<double>(1, double(s.total - s.warmup));
  return minimum(t, length) / length;
}

Value rate(const FixedLR&, Value lr, Value) { return lr; }

Value rate(const LinearLR& s, Value lr, Value t) {
  return (progress_of(s, t) * (s.end_factor - s.start_factor) + s.start_factor) * lr;
}

Value rate(const StepLR& s, Value lr, Value t) { return power(s.gamma, floor(t / double(s.step_size))) * lr; }

Value rate(const MultiStepLR& s, Value lr, Value t) {
  Value reached = scalar_like(t, 0);
  for (const int64_t milestone : s.milestones)
    reached = reached + cast(ge(t, scalar_like(t, double(milestone))), DType::f64);
  return power(s.gamma, reached) * lr;
}

Value rate(const ExponentialLR& s, Value lr, Value t) { return power(s.gamma, t) * lr; }

Value rate(const PolynomialLR& s, Value lr, Value t) {
  const Value left = 1.0 - progress_of(s, t);
  return pow(left, scalar_like(t, s.power)) * (lr - s.min_lr) + s.min_lr;
}

Value rate(const CosineAnnealingLR& s, Value lr, Value t) {
  return along_cosine(lr, s.min_lr, progress_of(s, t));
}

// The periods have T, T m, T m^2, ... steps, so the first n of them take T (m^n - 1) / (m - 1) steps. At a restart, rounding
// may put the logarithm just below the integer that it should be; 1e-9 corrects this and is less than the difference that one
// step makes.
Value rate(const CosineRestartsLR& s, Value lr, Value t) {
  const double first = double(s.period), m = double(s.period_factor);
  if (s.period_factor == 1) {
    const Value periods = t / first;
    return along_cosine(lr, s.min_lr, periods - floor(periods));
  }
  const Value n = floor(log(t * ((m - 1) / first) + 1.0) / std::log(m) + 1e-9);
  const Value scale = power(m, n), begin = (scale - 1.0) * (first / (m - 1));
  return along_cosine(lr, s.min_lr, (t - begin) / (scale * first));
}

Value rate(const WarmupCosineLR& s, Value lr, Value t) {
  const double rise = std::max<double>(1, double(s.warmup)),
               fall = std::max<double>(1, double(s.total - s.warmup));
  const Value progress = (minimum(t, double(s.total)) - double(s.warmup)) / fall;
  return where(lt(t, scalar_like(t, double(s.warmup))), t * (lr / rise),
               along_cosine(lr, s.min_lr, progress));
}

Value rate(const OneCycleLR& s, Value lr, Value t) {
  const Value first = lr / s.div_factor, last = first / s.final_div_factor;
  const double top = s.pct_start * double(s.total) - 1, end = double(s.total) - 1;
  const Value clamped = minimum(t, end);
  const Value rising = along_cosine(first, lr, clamped / top);
  const Value falling = along_cosine(lr, last, (clamped - top) / (end - top));
  return where(le(t, scalar_like(t, top)), rising, falling);
}

Value rate(const WSD& s, Value lr, Value t) {
  const double stable = double(s.total - s.warmup - s.decay), length = std::max<double>(1, double(s.decay));
  const Value p = clamp((t - stable) / length, 0.0, 1.0);
  if (s.decay_shape == DecayShape::kCosine) return along_cosine(lr, s.min_lr, p);
  return (s.decay_shape == DecayShape::kSqrt ? sqrt(p) : p) * (s.min_lr - lr) + lr;
}

Value rate(const PlateauLR&, Value, Value t) { return plateau_lr(*t.graph); }

// True for schedules whose formulas contain the warm-up.
template <class S>
constexpr bool kRisesItself = std::is_same_v<S, WarmupCosineLR> || std::is_same_v<S, OneCycleLR>;

// `behind` is 0 during the warm-up, so the schedule's first rate is scaled.
template <class S>
Value rate_after_warmup(const S& s, Value lr, Value t) {
  if constexpr (kRisesItself<S>) {
    return rate(s, lr, t);
  } else {
    if (s.warmup == 0) return rate(s, lr, t);
    const double warmup = double(s.warmup);
    const Value behind = maximum(t - warmup, 0.0);
    return rate(s, lr, behind) * minimum(t / warmup, 1.0);
  }
}

template <class S>
void require(bool condition, const S&, std::string_view what) {
  if (!condition) fail("the schedule '{}' needs {}", S::kName, what);
}

template <class S>
void require_total(const S& s) {
  require(s.total > 0, s, "total=STEPS, a positive number");
}

void check(const FixedLR&) {}
void check(const ExponentialLR&) {}
void check(const StepLR& s) { require(s.step_size > 0, s, "step_size=STEPS, a positive number"); }
void check(const MultiStepLR& s) {
  require(!s.milestones.empty() && s.milestones[0] > 0 &&
              std::ranges::adjacent_find(s.milestones, std::greater_equal<>()) == s.milestones.end(),
          s, "milestones=STEP;STEP;..., positive numbers that rise");
}
void check(const LinearLR& s) { require_total(s); }
void check(const PolynomialLR& s) {
  require_total(s);
  require(s.power >= 0, s, "a power of 0 or more");
}
void check(const CosineAnnealingLR& s) { require_total(s); }
void check(const CosineRestartsLR& s) {
  require(s.period > 0, s, "period=STEPS, a positive number");
  require(s.period_factor >= 1, s, "period_factor, 1 or more");
}
void check(const WSD& s) {
  require_total(s);
  require(s.decay > 0, s, "decay=STEPS, a positive number");
  require(s.warmup >= 0 && s.warmup <= s.total && s.decay <= s.total - s.warmup, s,
          "a total of at least warmup and decay together");
}
void check(const PlateauLR& s) {
  require(s.factor > 0 && s.factor < 1, s, "a factor between 0 and 1");
  require(s.patience >= 0 && s.cooldown >= 0, s, "patience and cooldown of 0 or more evaluations");
  require(s.threshold >= 0 && s.threshold < 1, s, "a threshold of at least 0 and less than 1");
}
void check(const WarmupCosineLR& s) {
  require_total(s);
  require(s.warmup >= 0 && s.warmup <= s.total, s, "warmup between 0 and total");
}
void check(const OneCycleLR& s) {
  require(s.total > 1, s, "total=STEPS, at least 2");
  require(s.pct_start * double(s.total) > 1 && s.pct_start < 1, s, "pct_start between 1 / total and 1");
  require(s.div_factor > 0 && s.final_div_factor > 0, s, "div_factor and final_div_factor above 0");
}

template <class S>
void check_warmup(const S& s) {
  if constexpr (requires { s.warmup; }) require(s.warmup >= 0, s, "a warmup of 0 or more steps");
  if constexpr (requires { s.warmup, s.total; })
    require(s.warmup <= s.total, s, "warmup between 0 and total");
}

}  // namespace

void check_schedule(const Schedule& schedule) {
  std::visit(
      [](const auto& s) {
        check(s);
        check_warmup(s);
      },
      schedule);
}

// Has the role kStep, like the number of steps, because it belongs to no parameter: the optimizer's states are counted without
// it.
int32_t add_base_lr(Model& model, double lr) {
  return model.add_state({.name = kBaseRate,
                          .type = {DType::f64, {}},
                          .role = StateRole::kStep,
                          .trainable = false,
                          .initial = Tensor::scalar<double>(lr)});
}

Value scheduled_lr(const Schedule& schedule, Value lr, Value step) {
  check_schedule(schedule);
  const auto* fixed = std::get_if<FixedLR>(&schedule);
  if (fixed && fixed->warmup == 0) return cast(lr, DType::f32);
  const Value done = cast(step, DType::f64);
  return cast(std::visit([&](const auto& s) { return rate_after_warmup(s, lr, done); }, schedule),
              DType::f32);
}

}  // namespace genesis::optim
