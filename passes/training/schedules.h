// Learning-rate schedules, computed inside the training graph from the number of steps done, so that a saved
// and resumed run continues where it stopped. The formulas are PyTorch's (torch.optim.lr_scheduler, closed
// forms), and transformers' for warmup_cosine; past `total` the rate stays where it ended.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::passes {

enum class ScheduleKind : uint8_t {
  kConstant,
  kLinear,
  kStep,
  kExponential,
  kCosine,
  kWarmupCosine,
  kOneCycle
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t total = 0;      // steps from the first to the last rate: linear, cosine, warmup_cosine, one_cycle
  int64_t warmup = 0;     // warmup_cosine: the rate rises from 0 during so many steps
  int64_t step_size = 0;  // step: every so many steps ...
  double gamma = 0.1;     // ... the rate is multiplied by this; exponential: in every step
  double start_factor = 1.0, end_factor = 0.0;  // linear: from lr * start_factor to lr * end_factor
  double min_lr = 0;                            // cosine, warmup_cosine: where the rate ends
  // one_cycle: rises from lr / div_factor to lr in total * pct_start steps, ends at lr / (div_factor *
  // final_div_factor)
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
};

// Throws Error that names what is missing for this kind.
void check_schedule(const Schedule& schedule);

// The rate of the run for which `step` (i64 scalar) steps are already done, as an f32 scalar.
Value scheduled_lr(const Schedule& schedule, double lr, Value step);

}  // namespace genesis::passes

template <>
struct genesis::EnumNames<genesis::passes::ScheduleKind> {
  static constexpr std::string_view names[] = {"constant", "linear",        "step",     "exponential",
                                               "cosine",   "warmup_cosine", "one_cycle"};
};
