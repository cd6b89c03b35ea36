// Learning-rate schedules, computed inside the training graph from the number of steps done, so that a saved and resumed run
// continues where it stopped. The formulas are PyTorch's (torch.optim.lr_scheduler, closed forms), and those of transformers
// for WarmupCosineLR and WSD; after step `total` the rate stays at its last value. A step is a training step. Only these
// structs define names and defaults, as for the optimizers.
//
// A schedule with the field `warmup` can follow a warm-up of that many steps, in which the rate rises linearly from 0 to the
// schedule's first rate. `total` counts from the beginning of training, warm-up included; other numbers of steps (step_size,
// milestones, period) count from the end of the warm-up, as with torch's SequentialLR.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "passes/training/plateau.h"
#include "schema/graph/graph.h"

namespace genesis::optim {

// Uses the optimizer's lr in every step.
struct FixedLR {
  static constexpr std::string_view kName = "constant";
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) { visit("warmup", self.warmup); }
};

// Changes the rate linearly from lr * start_factor to lr * end_factor.
struct LinearLR {
  static constexpr std::string_view kName = "linear";
  int64_t total = 0;  // last step of the schedule; required, here and below
  double start_factor = 1.0, end_factor = 0.0;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("total", self.total);
    visit("start_factor", self.start_factor);
    visit("end_factor", self.end_factor);
    visit("warmup", self.warmup);
  }
};

// Multiplies the rate by gamma every `step_size` steps (required).
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

// Multiplies the rate by gamma at each of the `milestones` (increasing steps, at least one).
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

// Multiplies the rate by gamma in every step.
struct ExponentialLR {
  static constexpr std::string_view kName = "exponential";
  double gamma = 0.1;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("gamma", self.gamma);
    visit("warmup", self.warmup);
  }
};

// Changes the rate from lr to min_lr as (1 - progress)^power.
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

// Changes the rate from lr to min_lr along half a cosine.
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

// Repeats half a cosine from lr to min_lr: the first time in `period` steps (required), each next time in `period_factor` times
// as many (T_0 and T_mult of CosineAnnealingWarmRestarts).
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

// Raises the rate from 0 in the first `warmup` of `total` steps, then follows a half cosine to min_lr.
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

// Raises the rate from lr / div_factor to lr in total * pct_start steps, then lowers it to lr / (div_factor *
// final_div_factor).
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

// The shape of the decay over its progress p from 0 to 1: 1 - p, half a cosine, or 1 - sqrt(p) (Haegele et al., 2024,
// arXiv:2405.18392).
enum class DecayShape : uint8_t { kLinear, kCosine, kSqrt };

// Warm-up, stable, decay: the rate rises, stays at lr, and falls to min_lr in the last `decay` of the `total` steps, so that a
// run can be extended from any checkpoint before the decay.
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

// Throws an Error that names the missing or wrong setting of this schedule.
void check_schedule(const Schedule& schedule);

// The state f64[] with the rate that a schedule starts from: the optimizer's lr, until another is set between two steps
// (executor/training/learning_rate.h). PlateauLR has its rate in a state of its own.
inline constexpr const char* kBaseRate = "optimizer.lr";
int32_t add_base_lr(Model& model, double lr);

// Returns the rate of the next step as an f32 scalar, when `step` (i64 scalar) steps are done. `lr`, an f64 scalar, is the rate
// that the schedule starts from. PlateauLR does not read it: the model must have the states of add_plateau().
Value scheduled_lr(const Schedule& schedule, Value lr, Value step);

}  // namespace genesis::optim

template <>
struct genesis::EnumNames<genesis::optim::DecayShape> {
  static constexpr std::string_view names[] = {"linear", "cosine", "sqrt"};
};
