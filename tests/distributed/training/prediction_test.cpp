// Tests predicted times of steps on ranks that do not exist: computation, exchanges, and the exposed part of these.
#include "executor/distributed/prediction.h"

#include <gtest/gtest.h>

#include "executor/distributed/traffic.h"
#include "executor/session.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

Prediction predicted(const std::string& mesh_text, const RankLinks& links = {}, const char* chip = "h100") {
  const auto model = testing::training("qwen2", "adamw,lr=1e-3,clip=1.0", 4096);
  const Mesh mesh = Mesh::parse(mesh_text);
  Session session(model, {.mesh = mesh});
  const int64_t ranks = mesh.size("data");
  return predict(session.plan("train_step", {{"batch", 8 * ranks}, {"seq", 12}}), mesh, chip_rates(chip),
                 links);
}

TEST(Prediction, OneRankOnlyComputes) {
  const Prediction alone = predicted("data=1");
  EXPECT_EQ(alone.exchange_us, 0);
  EXPECT_EQ(alone.step_us, alone.compute_us);
  EXPECT_GT(alone.compute_us, 0);
}

TEST(Prediction, ExchangesTakeTheirLatencyAndTheirBytes) {
  RankLinks links;
  links.same_host_us = 0;
  const Prediction fast = predicted("data=2", links);
  links.same_host /= 2;
  const Prediction slow = predicted("data=2", links);
  EXPECT_NEAR(slow.exchange_us, 2 * fast.exchange_us, 1e-9 * slow.exchange_us);
  EXPECT_EQ(slow.compute_us, fast.compute_us);
  EXPECT_GE(slow.step_us, fast.step_us);
  links.same_host_us = 100;
  EXPECT_GT(predicted("data=2", links).exchange_us, slow.exchange_us + 100);
}

// Ranks of one host are near each other. Ranks along the first axis of a mesh are far apart.
TEST(Prediction, HostsAreFurtherApartThanTheirRanks) {
  const Prediction host = predicted("data=8"), hosts = predicted("data=16"), many = predicted("data=1024");
  EXPECT_GT(hosts.exchange_us, host.exchange_us);
  EXPECT_GT(many.exchange_us, hosts.exchange_us);
  const Prediction near = predicted("data=8,tensor=2"), far = predicted("tensor=2,data=8");
  EXPECT_GT(far.exchange_us, near.exchange_us);
}

TEST(Prediction, WhatRunsBesideAnExchangeHidesSomeOfIt) {
  const Prediction two = predicted("data=2");
  EXPECT_GT(two.shown_us(), 0);
  EXPECT_LT(two.shown_us(), two.exchange_us);
}

TEST(Prediction, KnowsItsChips) {
  EXPECT_NE(predicted("data=1", {}, "h200").compute_us, predicted("data=1", {}, "h100").compute_us);
  EXPECT_NE(testing::error_of([] { chip_rates("b7"); }).find("known are h100 and h200"), std::string::npos);
}

}  // namespace
}  // namespace genesis
