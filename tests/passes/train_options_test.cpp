#include "passes/training/train_options.h"

#include "passes/core/name_patterns.h"

#include <gtest/gtest.h>

namespace genesis::passes {
namespace {

TEST(TrainOptions, ReadsThePairsOfACommandLine) {
  const TrainOptions o = parse_train_options(
      "adamw,lr=3e-4,weight_decay=0.1,clip=1.0,schedule=warmup_cosine,warmup=100,total=1000,accumulate=4,"
      "no_decay=1d;*embed*");
  const auto& adamw = std::get<optim::AdamW>(o.optimizer);
  EXPECT_EQ(adamw.lr, 3e-4);
  EXPECT_EQ(adamw.weight_decay, 0.1);
  EXPECT_EQ(o.clip, 1.0);
  const auto& schedule = std::get<optim::WarmupCosineLR>(o.schedule);
  EXPECT_EQ(schedule.warmup, 100);
  EXPECT_EQ(schedule.total, 1000);
  EXPECT_EQ(o.accumulate, 4);
  EXPECT_EQ(o.no_decay, (std::vector<std::string>{"1d", "*embed*"}));
}

TEST(TrainOptions, DefaultsFollowTheOptimizer) {
  EXPECT_EQ(std::get<optim::AdamW>(parse_train_options("").optimizer).weight_decay, 0.01);
  EXPECT_EQ(std::get<optim::Adam>(parse_train_options("adam").optimizer).weight_decay, 0);
  EXPECT_EQ(std::get<optim::Lion>(parse_train_options("lr=1,optimizer=lion").optimizer).beta2, 0.99);
  EXPECT_TRUE(std::get<optim::SGD>(parse_train_options("sgd,momentum=0.9,nesterov=true").optimizer).nesterov);
}

// A struct and a text mean the same: neither has names, defaults or checks of its own.
TEST(TrainOptions, StructsAndTextsAreOne) {
  const std::pair<TrainOptions, const char*> both[] = {
      {{}, "adamw"},
      {{.optimizer = optim::AdamW{.lr = 1e-2}, .clip = 1.0}, "adamw,lr=0.01,clip=1"},
      {{.optimizer = optim::SGD{.lr = 0.1, .momentum = 0.9, .nesterov = true}},
       "sgd,lr=0.1,momentum=0.9,nesterov=true"},
      {{.optimizer = optim::Lion{}, .schedule = optim::StepLR{.step_size = 30}},
       "lion,schedule=step,step_size=30"},
      {{.optimizer = optim::Adam{.beta2 = 0.95},
        .schedule = optim::WarmupCosineLR{.total = 9, .warmup = 3, .min_lr = 1e-5},
        .freeze = {"embed*", "*.bias"}},
       "adam,beta2=0.95,schedule=warmup_cosine,total=9,warmup=3,min_lr=1e-05,freeze=embed*;*.bias"}};
  for (const auto& [options, text] : both) {
    EXPECT_EQ(to_string(options), text);
    EXPECT_EQ(to_string(parse_train_options(text)), text);
  }
}

// Everything that a choice reads is a key, and every key of the text sets its field.
TEST(TrainOptions, EveryOptimizerAndScheduleIsReadFromItsName) {
  for (const char* name : {"sgd", "adam", "adamw", "lion", "muon"})
    EXPECT_EQ(to_string(parse_train_options(std::string(name) + ",lr=0.25,weight_decay=0.5")),
              std::string(name) + ",lr=0.25,weight_decay=0.5");
  for (const char* schedule : {"schedule=linear,total=7,start_factor=0.5,end_factor=0.25",
                               "schedule=exponential,gamma=0.5", "schedule=cosine,total=7,min_lr=0.5",
                               "schedule=one_cycle,total=50,pct_start=0.2,div_factor=2,final_div_factor=3",
                               "schedule=multi_step,milestones=3;70,gamma=0.5,warmup=4",
                               "schedule=polynomial,total=7,power=2,min_lr=0.5,warmup=1",
                               "schedule=cosine_restarts,period=5,period_factor=2,min_lr=0.5,warmup=4",
                               "schedule=wsd,total=50,decay=9,warmup=4,decay_shape=sqrt,min_lr=0.5",
                               "schedule=plateau,factor=0.5,patience=3,threshold=0.01,cooldown=1,min_lr=0.5"})
    EXPECT_EQ(to_string(parse_train_options(std::string("adamw,") + schedule)),
              std::string("adamw,") + schedule);
}

TEST(TrainOptions, PrintsWhatItParses) {
  for (const char* text : {"adamw", "sgd,lr=0.1,momentum=0.9,nesterov=true", "lion,freeze=embed*;*.bias",
                           "adam,lr=0.002,schedule=one_cycle,total=50,pct_start=0.2"})
    EXPECT_EQ(to_string(parse_train_options(text)), text);
}

void expect_error(const char* text, const char* part) {
  try {
    parse_train_options(text);
    ADD_FAILURE() << "no error for " << text;
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(TrainOptions, ErrorsNameTheKey) {
  expect_error("adamw,learning_rate=1",
               "no training option 'learning_rate' (did you mean 'lr'?); the options are: optimizer, lr,");
  expect_error("adamw,lr=fast", "training option 'lr' is 'fast', expected a number");
  expect_error("adamw,accumulate=2.5", "training option 'accumulate' is '2.5', expected an integer");
  expect_error("adamw,accumulate=0", "training option 'accumulate' is 0, expected between 1 and 4096");
  expect_error("adamw,ema=1", "training option 'ema' is 1, expected at least 0 and less than 1");
  expect_error("adamw,beta1=1", "training option 'beta1' is 1");
  expect_error("adagrad", "'adagrad', expected one of: sgd, adam, adamw, lion, muon");
  expect_error("adamw,nesterov", "training option 'nesterov' has no value");
  expect_error("sgd,nesterov=yes", "expected true or false");
  expect_error("sgd,nesterov=true", "needs a momentum");
  expect_error("adamw,schedule=cosine", "the schedule 'cosine' needs total=STEPS");
  expect_error("adamw,schedule=step", "the schedule 'step' needs step_size=STEPS");
  expect_error("adamw,schedule=warmup_cosine,total=10,warmup=11", "warmup between 0 and total");
  expect_error("adamw,schedule=one_cycle,total=3", "pct_start between");
  expect_error("adamw,momentum=0.9", "'momentum' would do nothing: it goes with sgd or muon");
  expect_error("sgd,beta1=0.5", "'beta1' would do nothing: it goes with adam, adamw or lion");
  expect_error("lion,eps=1", "'eps' would do nothing: it goes with adam, adamw or muon");
  expect_error("adamw,schedule=one_cycle,total=9,warmup=10",
               "'warmup' would do nothing: it goes with schedule=constant, linear,");
  expect_error("adamw,warmup=-1", "the schedule 'constant' needs a warmup of 0 or more steps");
  expect_error("adamw,schedule=cosine,total=9,warmup=10",
               "the schedule 'cosine' needs warmup between 0 and total");
  expect_error("adamw,schedule=multi_step", "the schedule 'multi_step' needs milestones=STEP;STEP;...");
  expect_error("adamw,schedule=multi_step,milestones=3;3", "positive numbers that rise");
  expect_error("adamw,schedule=multi_step,milestones=3;x",
               "training option 'milestones' is 'x', expected an integer");
  expect_error("adamw,schedule=cosine_restarts", "needs period=STEPS");
  expect_error("adamw,schedule=wsd,total=10", "needs decay=STEPS");
  expect_error("adamw,schedule=wsd,total=10,decay=6,warmup=5",
               "a total of at least warmup and decay together");
  expect_error("adamw,schedule=wsd,total=10,decay=6,decay_shape=round",
               "expected one of: linear, cosine, sqrt");
  expect_error("adamw,schedule=plateau,factor=1", "a factor between 0 and 1");
  expect_error("adamw,schedule=cosine,total=9,gamma=0.5",
               "it goes with schedule=step, multi_step or exponential");
  expect_error("adamw,lr=1,lr=2", "training option 'lr' is given twice");
}

TEST(TrainOptions, StructsAreCheckedAsTextsAre) {
  const auto refused = [](const TrainOptions& options, const char* part) {
    try {
      check_train_options(options);
      ADD_FAILURE() << "no error: " << part;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  };
  check_train_options({});
  refused({.optimizer = optim::AdamW{.lr = -1}}, "training option 'lr' is -1, expected 0 or more");
  refused({.optimizer = optim::Lion{.beta1 = 1}}, "training option 'beta1' is 1");
  refused({.optimizer = optim::SGD{.nesterov = true}}, "needs a momentum");
  refused({.schedule = optim::CosineAnnealingLR{}}, "the schedule 'cosine' needs total=STEPS");
  refused({.accumulate = 0}, "training option 'accumulate' is 0");
}

TEST(TrainOptions, ReadsAndWritesParameterGroups) {
  const TrainOptions o = parse_train_options(
      "adamw,lr=0.25,group={*.bias, *norm* : lr=0.5x, weight_decay=0},clip=1,group={embed*:freeze}");
  ASSERT_EQ(o.groups.size(), 2u);
  EXPECT_EQ(o.groups[0].parameters, (std::vector<std::string>{"*.bias", "*norm*"}));
  EXPECT_EQ(o.groups[0].lr_factor, 0.5);
  EXPECT_EQ(o.groups[0].weight_decay, 0);
  EXPECT_FALSE(o.groups[0].freeze);
  EXPECT_TRUE(o.groups[1].freeze);
  const std::string text =
      "adamw,lr=0.25,clip=1,group={*.bias,*norm*:lr=0.5x,weight_decay=0},group={embed*:freeze}";
  EXPECT_EQ(to_string(o), text);
  EXPECT_EQ(to_string(parse_train_options(text)), text);
  const TrainOptions typed{
      .optimizer = optim::AdamW{.lr = 0.25},
      .clip = 1,
      .groups = {{.parameters = {"*.bias", "*norm*"}, .lr_factor = 0.5, .weight_decay = 0},
                 {.parameters = {"embed*"}, .freeze = true}}};
  EXPECT_EQ(to_string(typed), text);
}

TEST(TrainOptions, ErrorsOfGroupsQuoteThem) {
  expect_error("adamw,group=*.bias:lr=2x", "expected {PATTERN,...:SETTING,...}");
  expect_error("adamw,group={*.bias}", "expected PATTERN,...: SETTING,...");
  expect_error("adamw,group={:freeze}", "names no parameters");
  expect_error("adamw,group={*.bias:}", "a parameter group without a setting does nothing");
  expect_error("adamw,group={*.bias:lr=0.5}", "'lr' of a parameter group is '0.5', expected a factor");
  expect_error("adamw,group={*.bias:lr=fastx}", "'lr' of a parameter group is 'fast', expected a number");
  expect_error("adamw,group={*.bias:lr=-1x}", "-1x, expected 0 or more");
  expect_error("adamw,group={*.bias:weight_decay=-1}", "is -1, expected 0 or more");
  expect_error("adamw,group={*.bias:speed=3}", "a parameter group has no setting 'speed=3'");
  expect_error("adamw,group={*.bias:freeze}x", "expected {PATTERN");
  EXPECT_THROW(check_train_options({.groups = {{.parameters = {"a,b"}, .freeze = true}}}), Error);
}

TEST(TrainOptions, MatchesNames) {
  EXPECT_TRUE(matches_any({"layers.*.bias"}, "layers.0.mlp.bias"));
  EXPECT_FALSE(matches_any({"layers.*.bias"}, "layers.0.mlp.bias2"));
  EXPECT_TRUE(matches_any({"x", "la?er*"}, "layers.0"));
  EXPECT_TRUE(matches_any({"*"}, ""));
  EXPECT_FALSE(matches_any({}, "x"));
  EXPECT_TRUE(matches_any({"*a*b*"}, "xaxxabx"));
  EXPECT_FALSE(matches_any({"*a*b"}, "xaxxabx"));
}

}  // namespace
}  // namespace genesis::passes
