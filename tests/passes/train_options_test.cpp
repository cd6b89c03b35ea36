#include "passes/training/train_options.h"

#include "passes/core/name_patterns.h"

#include <gtest/gtest.h>

namespace genesis::passes {
namespace {

TEST(TrainOptions, ReadsThePairsOfACommandLine) {
  const TrainOptions o = parse_train_options(
      "adamw,lr=3e-4,weight_decay=0.1,clip=1.0,schedule=warmup_cosine,warmup=100,total=1000,accumulate=4,"
      "no_decay=1d;*embed*");
  EXPECT_EQ(o.optimizer, OptimizerKind::kAdamw);
  EXPECT_EQ(o.lr, 3e-4);
  EXPECT_EQ(o.weight_decay, 0.1);
  EXPECT_EQ(o.clip, 1.0);
  EXPECT_EQ(o.schedule.kind, ScheduleKind::kWarmupCosine);
  EXPECT_EQ(o.schedule.warmup, 100);
  EXPECT_EQ(o.schedule.total, 1000);
  EXPECT_EQ(o.accumulate, 4);
  EXPECT_EQ(o.no_decay, (std::vector<std::string>{"1d", "*embed*"}));
}

TEST(TrainOptions, DefaultsFollowTheOptimizer) {
  EXPECT_EQ(parse_train_options("").weight_decay, 0.01);
  EXPECT_EQ(parse_train_options("adam").weight_decay, 0);
  EXPECT_EQ(parse_train_options("lr=1,optimizer=lion").beta2, 0.99);
  EXPECT_EQ(parse_train_options("sgd,momentum=0.9,nesterov=true").nesterov, true);
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
               "no training option 'learning_rate'; the options are: optimizer, lr,");
  expect_error("adamw,lr=fast", "training option 'lr' is 'fast', expected a number");
  expect_error("adamw,accumulate=2.5", "training option 'accumulate' is '2.5', expected an integer");
  expect_error("adamw,accumulate=0", "training option 'accumulate' is 0, expected 1 or more");
  expect_error("adamw,beta1=1", "training option 'beta1' is 1");
  expect_error("adagrad", "'adagrad', expected one of: sgd, adam, adamw, lion");
  expect_error("adamw,nesterov", "training option 'nesterov' has no value");
  expect_error("sgd,nesterov=yes", "expected true or false");
  expect_error("sgd,nesterov=true", "needs a momentum");
  expect_error("adamw,schedule=cosine", "the schedule 'cosine' needs total=STEPS");
  expect_error("adamw,schedule=step", "the schedule 'step' needs step_size=STEPS");
  expect_error("adamw,schedule=warmup_cosine,total=10,warmup=11", "warmup between 0 and total");
  expect_error("adamw,schedule=one_cycle,total=3", "pct_start between");
  expect_error("adamw,momentum=0.9", "'momentum' would do nothing: it goes with sgd");
  expect_error("sgd,beta1=0.5", "'beta1' would do nothing: it goes with adam, adamw or lion");
  expect_error("lion,eps=1", "'eps' would do nothing: it goes with adam or adamw");
  expect_error("adamw,warmup=10", "'warmup' would do nothing: it goes with schedule=warmup_cosine");
  expect_error("adamw,schedule=cosine,total=9,gamma=0.5", "it goes with schedule=step or exponential");
  expect_error("adamw,lr=1,lr=2", "training option 'lr' is given twice");
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
