// How to train: the options of add_train_step, and their text form for command lines and files:
// "adamw,lr=3e-4,weight_decay=0.1,clip=1.0,schedule=warmup_cosine,warmup=100,total=1000,accumulate=4".
#pragma once

#include <string>
#include <vector>

#include "passes/training/schedules.h"

namespace genesis::passes {

enum class OptimizerKind : uint8_t { kSgd, kAdam, kAdamw, kLion };
enum class TrainPrecision : uint8_t { kF32, kBf16, kF16 };

struct TrainOptions {
  OptimizerKind optimizer = OptimizerKind::kAdamw;
  double lr = 1e-3;
  double weight_decay = 0.01;  // PyTorch's defaults: 0.01 with adamw, else 0
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0, dampening = 0;  // sgd
  bool nesterov = false;               // sgd
  double clip = 0;                     // limit of the gradients' global norm; 0: none
  double clip_value = 0;               // limit of each gradient element, applied first; 0: none
  int64_t accumulate = 1;              // micro-batches per step
  Schedule schedule;
  // Names of parameters, with * for any text and ? for any character.
  std::vector<std::string> train = {"*"}, freeze;  // trained: what `train` names and `freeze` does not
  std::vector<std::string> no_decay;  // without weight decay; "1d" means all with at most one axis
  // Forward and backward in bf16 or f16; weights, their update, norm and clipping stay f32. f16 also scales
  // the loss: by 2^16 at first, half of that after a step whose gradients overflow (which is skipped), twice
  // that after `scale_interval` good steps.
  TrainPrecision precision = TrainPrecision::kF32;
  std::vector<std::string> keep_f32;  // nodes, by name: computed in f32 nevertheless
  bool merge_projections = true;      // in bf16 and f16: q, k and v as one product, gate and up as another
  double loss_scale = 65536;
  int64_t scale_interval = 2000;
  std::string entry = "loss", output = "loss";  // the number to minimise
  std::string name = "train_step";              // of the entry point to make

  // Names every field once: the parser, the printer and the list of known keys follow.
  static void fields(auto& self, auto&& visit) {
    visit("optimizer", self.optimizer);
    visit("lr", self.lr);
    visit("weight_decay", self.weight_decay);
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("eps", self.eps);
    visit("momentum", self.momentum);
    visit("dampening", self.dampening);
    visit("nesterov", self.nesterov);
    visit("clip", self.clip);
    visit("clip_value", self.clip_value);
    visit("accumulate", self.accumulate);
    visit("schedule", self.schedule.kind);
    visit("total", self.schedule.total);
    visit("warmup", self.schedule.warmup);
    visit("step_size", self.schedule.step_size);
    visit("gamma", self.schedule.gamma);
    visit("start_factor", self.schedule.start_factor);
    visit("end_factor", self.schedule.end_factor);
    visit("min_lr", self.schedule.min_lr);
    visit("pct_start", self.schedule.pct_start);
    visit("div_factor", self.schedule.div_factor);
    visit("final_div_factor", self.schedule.final_div_factor);
    visit("train", self.train);
    visit("freeze", self.freeze);
    visit("no_decay", self.no_decay);
    visit("precision", self.precision);
    visit("keep_f32", self.keep_f32);
    visit("merge_projections", self.merge_projections);
    visit("loss_scale", self.loss_scale);
    visit("scale_interval", self.scale_interval);
    visit("entry", self.entry);
    visit("output", self.output);
    visit("name", self.name);
  }
};

TrainOptions default_options(OptimizerKind optimizer);

// Pairs key=value separated by ','; the first word alone may name the optimizer. Lists are separated by ';'
// (freeze=embed*;*.bias). Throws Error that names the key and lists the known ones, and for a key that this
// optimizer or this schedule does not read.
TrainOptions parse_train_options(const std::string& text);
// What differs from the optimizer's defaults; parse_train_options reads it back.
std::string to_string(const TrainOptions& options);

}  // namespace genesis::passes

template <>
struct genesis::EnumNames<genesis::passes::OptimizerKind> {
  static constexpr std::string_view names[] = {"sgd", "adam", "adamw", "lion"};
};
template <>
struct genesis::EnumNames<genesis::passes::TrainPrecision> {
  static constexpr std::string_view names[] = {"f32", "bf16", "f16"};
};
