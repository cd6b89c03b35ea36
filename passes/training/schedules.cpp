#include "passes/training/schedules.h"

#include <numbers>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/create.h"

namespace genesis::passes {
namespace {

// All in f64, as Python computes it; `t` is the number of steps done.

// From `start` at progress 0 to `end` at 1, along half a cosine.
Value along_cosine(double start, double end, Value progress) {
  return (cos(progress * std::numbers::pi) + 1.0) * ((start - end) / 2) + end;
}

Value linear(const Schedule& s, double lr, Value t) {
  const Value done = minimum(t, double(s.total)) / double(s.total);
  return (done * (s.end_factor - s.start_factor) + s.start_factor) * lr;
}

Value power(double base, Value exponent) { return pow(scalar_like(exponent, base), exponent); }

Value cosine(const Schedule& s, double lr, Value t) {
  return along_cosine(lr, s.min_lr, minimum(t, double(s.total)) / double(s.total));
}

Value warmup_cosine(const Schedule& s, double lr, Value t) {
  const double rise = std::max<double>(1, double(s.warmup)),
               fall = std::max<double>(1, double(s.total - s.warmup));
  const Value progress = (minimum(t, double(s.total)) - double(s.warmup)) / fall;
  return where(lt(t, scalar_like(t, double(s.warmup))), t * (lr / rise),
               along_cosine(lr, s.min_lr, progress));
}

Value one_cycle(const Schedule& s, double lr, Value t) {
  const double first = lr / s.div_factor, last = first / s.final_div_factor;
  const double top = s.pct_start * double(s.total) - 1, end = double(s.total) - 1;
  const Value clamped = minimum(t, end);
  const Value rising = along_cosine(first, lr, clamped / top);
  const Value falling = along_cosine(lr, last, (clamped - top) / (end - top));
  return where(le(t, scalar_like(t, top)), rising, falling);
}

Value rate(const Schedule& s, double lr, Value t) {
  switch (s.kind) {
    case ScheduleKind::kLinear:
      return linear(s, lr, t);
    case ScheduleKind::kStep:
      return power(s.gamma, floor(t / double(s.step_size))) * lr;
    case ScheduleKind::kExponential:
      return power(s.gamma, t) * lr;
    case ScheduleKind::kCosine:
      return cosine(s, lr, t);
    case ScheduleKind::kWarmupCosine:
      return warmup_cosine(s, lr, t);
    case ScheduleKind::kOneCycle:
      return one_cycle(s, lr, t);
    case ScheduleKind::kConstant:
      break;
  }
  return scalar_like(t, lr);
}

void require(bool condition, const Schedule& schedule, std::string_view what) {
  if (!condition)
    fail("the schedule '{}' needs {}", EnumNames<ScheduleKind>::names[static_cast<size_t>(schedule.kind)],
         what);
}

}  // namespace

void check_schedule(const Schedule& s) {
  switch (s.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kExponential:
      return;
    case ScheduleKind::kStep:
      return require(s.step_size > 0, s, "step_size=STEPS, a positive number");
    case ScheduleKind::kLinear:
    case ScheduleKind::kCosine:
      return require(s.total > 0, s, "total=STEPS, a positive number");
    case ScheduleKind::kWarmupCosine:
      require(s.total > 0, s, "total=STEPS, a positive number");
      return require(s.warmup >= 0 && s.warmup <= s.total, s, "warmup between 0 and total");
    case ScheduleKind::kOneCycle:
      require(s.total > 1, s, "total=STEPS, at least 2");
      require(s.pct_start * double(s.total) > 1 && s.pct_start < 1, s, "pct_start between 1 / total and 1");
      return require(s.div_factor > 0 && s.final_div_factor > 0, s,
                     "div_factor and final_div_factor above 0");
  }
}

Value scheduled_lr(const Schedule& schedule, double lr, Value step) {
  check_schedule(schedule);
  if (schedule.kind == ScheduleKind::kConstant) return full(*step.graph, {}, lr, DType::f32);
  return cast(rate(schedule, lr, cast(step, DType::f64)), DType::f32);
}

}  // namespace genesis::passes
