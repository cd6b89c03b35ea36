// Learning-rate schedules, computed inside the training graph from the number of steps done, so that a saved
// and resumed run continues where it stopped. The formulas are PyTorch's (torch.optim.lr_scheduler, closed
// forms), and transformers' for WarmupCosineLR and WSD; past `total` the rate stays where it ended. A step is one of
// training. Like the optimizers these structs are the one home of names and defaults.
//
// A schedule with the field `warmup` can stand behind a warm-up: in so many steps the rate rises along a line from 0 to
// where the schedule begins. `total` counts from the beginning of training, warm-up included; what else is counted in
// steps (step_size, milestones, period) is counted from the end of the warm-up, as behind torch's SequentialLR.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "passes/training/plateau.h"
#include "schema/graph/graph.h"

namespace genesis::optim {

// The optimizer's lr in every step.
struct FixedLR {
  static constexpr std::string_view kName = "constant";
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) { visit("warmup", self.warmup); }
};

// From lr * start_factor to lr * end_factor.
struct LinearLR {
  static constexpr std::string_view kName = "linear";
  int64_t total = 0;  // steps from the first to the last rate; has to be given, here and below
  double start_factor = 1.0, end_factor = 0.0;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("start_factor", self.start_factor);
    visit("end_factor", self.end_factor);
    visit("warmup", self.warmup);
  }
};

// Every `step_size` steps (has to be given) the rate is multiplied by gamma.
struct StepLR {
  static constexpr std::string_view kName = "step";
  int64_t step_size = 0;
  double gamma = 0.1;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("step_size", self.step_size);
    visit("gamma", self.gamma);
    visit("warmup", self.warmup);
  }
};

// At each of the `milestones` (steps that rise, at least one) the rate is multiplied by gamma.
struct MultiStepLR {
  static constexpr std::string_view kName = "multi_step";
  std::vector<int64_t> milestones = {};
  double gamma = 0.1;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("milestones", self.milestones);
    visit("gamma", self.gamma);
    visit("warmup", self.warmup);
  }
};

// In every step.
struct ExponentialLR {
  static constexpr std::string_view kName = "exponential";
  double gamma = 0.1;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("gamma", self.gamma);
    visit("warmup", self.warmup);
  }
};

// From lr to min_lr as (1 - progress)^power.
struct PolynomialLR {
  static constexpr std::string_view kName = "polynomial";
  int64_t total = 0;
  double power = 1, min_lr = 0;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("power", self.power);
    visit("min_lr", self.min_lr);
    visit("warmup", self.warmup);
  }
};

// From lr to min_lr along half a cosine.
struct CosineAnnealingLR {
  static constexpr std::string_view kName = "cosine";
  int64_t total = 0;
  double min_lr = 0;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("min_lr", self.min_lr);
    visit("warmup", self.warmup);
  }
};

// Half a cosine from lr to min_lr again and again: the first in `period` steps (has to be given), each next one in
// `period_factor` times as many (T_0 and T_mult of CosineAnnealingWarmRestarts).
struct CosineRestartsLR {
  static constexpr std::string_view kName = "cosine_restarts";
  int64_t period = 0, period_factor = 1;
  double min_lr = 0;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("period", self.period);
    visit("period_factor", self.period_factor);
    visit("min_lr", self.min_lr);
    visit("warmup", self.warmup);
  }
};

// The cosine after `warmup` of the `total` steps, in which the rate rises from 0.
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

// How the rate falls over the progress p from 0 to 1 of a decay: by 1 - p, by half a cosine, or by 1 - sqrt(p)
// (Haegele et al., 2024, arXiv:2405.18392).
enum class DecayShape : uint8_t { kLinear, kCosine, kSqrt };

// Warm-up, stable, decay: rises, stays at lr, and falls to min_lr in the last `decay` of the `total` steps, so that a
// run can be prolonged from any checkpoint before the decay.
struct WSD {
  static constexpr std::string_view kName = "wsd";
  int64_t total = 0, decay = 0, warmup = 0;
  DecayShape decay_shape = DecayShape::kLinear;
  double min_lr = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("decay", self.decay);
    visit("warmup", self.warmup);
    visit("decay_shape", self.decay_shape);
    visit("min_lr", self.min_lr);
  }
};

using Schedule =
    std::variant<FixedLR, LinearLR, StepLR, MultiStepLR, ExponentialLR, PolynomialLR, CosineAnnealingLR,
                 CosineRestartsLR, WarmupCosineLR, OneCycleLR, WSD, PlateauLR>;

// Throws Error that names what is missing for this schedule.
void check_schedule(const Schedule& schedule);

// The state f64[] that has the rate which a schedule starts from: the optimizer's lr, until another is set between two
// steps (executor/training/learning_rate.h). PlateauLR has its rate in a state of its own.
inline constexpr const char* kBaseRate = "optimizer.lr";
int32_t add_base_lr(Model& model, double lr);

// The rate of the run for which `step` (i64 scalar) steps are already done, as an f32 scalar. `lr`: the rate that the schedule
// starts from, an f64 scalar. PlateauLR does not read it: the model has to hold the states of add_plateau().
Value scheduled_lr(const Schedule& schedule, Value lr, Value step);

}  // namespace genesis::optim

template <>
struct genesis::EnumNames<genesis::optim::DecayShape> {
  static constexpr std::string_view names[] = {"linear", "cosine", "sqrt"};
};
