#include "passes/training/schedules.h"

#include <numbers>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/create.h"

namespace genesis::optim {
namespace {

// All in f64, as Python computes it; `t` is the number of steps done.

// From `start` at progress 0 to `end` at 1, along half a cosine.
Value along_cosine(double start, double end, Value progress) {
  return (cos(progress * std::numbers::pi) + 1.0) * ((start - end) / 2) + end;
}

Value power(double base, Value exponent) { return pow(scalar_like(exponent, base), exponent); }

Value rate(const FixedLR&, double lr, Value t) { return scalar_like(t, lr); }

Value rate(const LinearLR& s, double lr, Value t) {
  const Value done = minimum(t, double(s.total)) / double(s.total);
  return (done * (s.end_factor - s.start_factor) + s.start_factor) * lr;
}

Value rate(const StepLR& s, double lr, Value t) {
  return power(s.gamma, floor(t / double(s.step_size))) * lr;
}

Value rate(const ExponentialLR& s, double lr, Value t) { return power(s.gamma, t) * lr; }

Value rate(const CosineAnnealingLR& s, double lr, Value t) {
  return along_cosine(lr, s.min_lr, minimum(t, double(s.total)) / double(s.total));
}

Value rate(const WarmupCosineLR& s, double lr, Value t) {
  const double rise = std::max<double>(1, double(s.warmup)),
               fall = std::max<double>(1, double(s.total - s.warmup));
  const Value progress = (minimum(t, double(s.total)) - double(s.warmup)) / fall;
  return where(lt(t, scalar_like(t, double(s.warmup))), t * (lr / rise),
               along_cosine(lr, s.min_lr, progress));
}

Value rate(const OneCycleLR& s, double lr, Value t) {
  const double first = lr / s.div_factor, last = first / s.final_div_factor;
  const double top = s.pct_start * double(s.total) - 1, end = double(s.total) - 1;
  const Value clamped = minimum(t, end);
  const Value rising = along_cosine(first, lr, clamped / top);
  const Value falling = along_cosine(lr, last, (clamped - top) / (end - top));
  return where(le(t, scalar_like(t, top)), rising, falling);
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
void check(const LinearLR& s) { require_total(s); }
void check(const CosineAnnealingLR& s) { require_total(s); }
void check(const WarmupCosineLR& s) {
  require_total(s);
  require(s.warmup >= 0 && s.warmup <= s.total, s, "warmup between 0 and total");
}
void check(const OneCycleLR& s) {
  require(s.total > 1, s, "total=STEPS, at least 2");
  require(s.pct_start * double(s.total) > 1 && s.pct_start < 1, s, "pct_start between 1 / total and 1");
  require(s.div_factor > 0 && s.final_div_factor > 0, s, "div_factor and final_div_factor above 0");
}

}  // namespace

void check_schedule(const Schedule& schedule) {
  std::visit([](const auto& s) { check(s); }, schedule);
}

Value scheduled_lr(const Schedule& schedule, double lr, Value step) {
  check_schedule(schedule);
  if (std::holds_alternative<FixedLR>(schedule)) return full(*step.graph, {}, lr, DType::f32);
  const Value done = cast(step, DType::f64);
  return cast(std::visit([&](const auto& s) { return rate(s, lr, done); }, schedule), DType::f32);
}

}  // namespace genesis::optim
