// Learning-rate schedules, computed inside the training graph from the number of steps done, so that a saved
// and resumed run continues where it stopped. The formulas are PyTorch's (torch.optim.lr_scheduler, closed
// forms), and transformers' for WarmupCosineLR; past `total` the rate stays where it ended. A step is one of training.
// Like the optimizers these structs are the one home of names and defaults.
#pragma once

#include <string_view>
#include <variant>

#include "schema/graph/graph.h"

namespace genesis::optim {

// The optimizer's lr in every step.
struct FixedLR {
  static constexpr std::string_view kName = "constant";
  static void fields(auto&, auto&&) {}
};

// From lr * start_factor to lr * end_factor.
struct LinearLR {
  static constexpr std::string_view kName = "linear";
  int64_t total = 0;  // steps from the first to the last rate; has to be given, here and below
  double start_factor = 1.0, end_factor = 0.0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("start_factor", self.start_factor);
    visit("end_factor", self.end_factor);
  }
};

// Every `step_size` steps (has to be given) the rate is multiplied by gamma.
struct StepLR {
  static constexpr std::string_view kName = "step";
  int64_t step_size = 0;
  double gamma = 0.1;
  static void fields(auto& self, auto&& visit) {
    visit("step_size", self.step_size);
    visit("gamma", self.gamma);
  }
};

// In every step.
struct ExponentialLR {
  static constexpr std::string_view kName = "exponential";
  double gamma = 0.1;
  static void fields(auto& self, auto&& visit) { visit("gamma", self.gamma); }
};

// From lr to min_lr along half a cosine.
struct CosineAnnealingLR {
  static constexpr std::string_view kName = "cosine";
  int64_t total = 0;
  double min_lr = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("min_lr", self.min_lr);
  }
};

// The same after `warmup` of the `total` steps, in which the rate rises from 0.
struct WarmupCosineLR {
  static constexpr std::string_view kName = "warmup_cosine";
  int64_t total = 0, warmup = 0;
  double min_lr = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("warmup", self.warmup);
    visit("min_lr", self.min_lr);
  }
};

// Rises from lr / div_factor to lr in total * pct_start steps, ends at lr / (div_factor * final_div_factor).
struct OneCycleLR {
  static constexpr std::string_view kName = "one_cycle";
  int64_t total = 0;
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("pct_start", self.pct_start);
    visit("div_factor", self.div_factor);
    visit("final_div_factor", self.final_div_factor);
  }
};

using Schedule =
    std::variant<FixedLR, LinearLR, StepLR, ExponentialLR, CosineAnnealingLR, WarmupCosineLR, OneCycleLR>;

// Throws Error that names what is missing for this schedule.
void check_schedule(const Schedule& schedule);

// The rate of the run for which `step` (i64 scalar) steps are already done, as an f32 scalar.
Value scheduled_lr(const Schedule& schedule, double lr, Value step);

}  // namespace genesis::optim
