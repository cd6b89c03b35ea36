// Defines the options of add_training, and their text form for command lines and files:
// "adamw,lr=3e-4,weight_decay=0.1,clip=1.0,schedule=warmup_cosine,warmup=100,total=1000,accumulate=4" is
//
//     TrainOptions{.optimizer = optim::AdamW{.lr = 3e-4, .weight_decay = 0.1},
//                  .schedule = optim::WarmupCosineLR{.total = 1000, .warmup = 100},
//                  .clip = 1.0,
//                  .accumulate = 4}
//
// The text form defines no names or defaults of its own: every struct names its fields once, and the parser, the printer, the
// checks and the lists in errors use these names.
#pragma once

#include <string>
#include <vector>

#include "passes/training/optimizers.h"
#include "passes/training/parameter_groups.h"
#include "passes/training/schedules.h"

namespace genesis::passes {

enum class TrainPrecision : uint8_t { kF32, kBf16, kF16 };

struct TrainOptions {
  optim::Optimizer optimizer = optim::AdamW{};
  optim::Schedule schedule = optim::FixedLR{};
  double clip = 0;         // limit of the gradients' global norm; 0: none
  double clip_value = 0;   // limit of each gradient element, applied first; 0: none
  int64_t accumulate = 1;  // micro-batches per step
  // Patterns of parameter names, with * for any text and ? for any character.
  std::vector<std::string> train = {"*"}, freeze = {};  // trains the names in `train` that are not in `freeze`
  std::vector<std::string> no_decay = {};  // without weight decay; "1d" stands for all with at most one axis
  std::vector<ParameterGroup> groups =
      {};  // settings for some parameters; the first group that matches a name applies
  // Decay of the moving averages of the trained weights (weight_average.h), such as 0.999; 0: no averages.
  double ema = 0, ema_warmup = 10;
  // Precision of the forward and backward passes; weights, their update, norm and clipping stay f32. f16 also scales the loss:
  // by `loss_scale` at first, by half the scale after a step whose gradients overflow (which is skipped), and by twice the
  // scale after `scale_interval` good steps.
  TrainPrecision precision = TrainPrecision::kF32;
  std::vector<std::string> keep_f32 = {};  // names of nodes that are computed in f32 nevertheless
  bool merge_projections = true;  // in bf16 and f16: q, k and v as one product, gate and up as another
  double loss_scale = 65536;
  int64_t scale_interval = 2000;
  std::string entry = "loss", output = "loss";  // the number to minimize
  // Patterns of further outputs of the entry point, such as an accuracy, that the step also returns (step_outputs.h).
  std::vector<std::string> outputs = {"*"};
  std::string name = "train_step";              // name of the new entry point

  static void fields(auto& self, auto&& visit) {
    visit("optimizer", self.optimizer);
    visit("schedule", self.schedule);
    visit("clip", self.clip);
    visit("clip_value", self.clip_value);
    visit("accumulate", self.accumulate);
    visit("train", self.train);
    visit("freeze", self.freeze);
    visit("no_decay", self.no_decay);
    visit("group", self.groups);
    visit("ema", self.ema);
    visit("ema_warmup", self.ema_warmup);
    visit("precision", self.precision);
    visit("keep_f32", self.keep_f32);
    visit("merge_projections", self.merge_projections);
    visit("loss_scale", self.loss_scale);
    visit("scale_interval", self.scale_interval);
    visit("entry", self.entry);
    visit("output", self.output);
    visit("outputs", self.outputs);
    visit("name", self.name);
  }
};

// Throws an Error that names an option out of range and the expected range; both forms are checked.
void check_train_options(const TrainOptions& options);

// Parses pairs key=value separated by ','; the first word alone may name the optimizer. Lists are separated by ';'
// (freeze=embed*;*.bias); a group is written in braces (group={*.bias:lr=0.5x}) and may be repeated. Options that the text does
// not name are as in `standard`. Throws an Error that names an unknown key and lists the known ones, or names a key that the
// chosen optimizer or schedule does not read.
TrainOptions parse_train_options(const std::string& text, const TrainOptions& standard = {});
// Returns the options that differ from the defaults; parse_train_options reads the text back.
std::string to_string(const TrainOptions& options);

}  // namespace genesis::passes

template <>
struct genesis::EnumNames<genesis::passes::TrainPrecision> {
  static constexpr std::string_view names[] = {"f32", "bf16", "f16"};
};
