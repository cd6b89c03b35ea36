// Tests that every family of decoders trains on ranks along "data" and "tensor" as on one rank.
#include <gtest/gtest.h>

#include "executor/session.h"
#include "passes/training/train_step.h"
#include "tests/distributed/training/small_training.h"
#include "tests/models/small_families.h"

namespace genesis {
namespace {

using testing::Curve;

class FamilyOnMesh : public ::testing::TestWithParam<std::string> {};

TEST_P(FamilyOnMesh, TrainsAsOneRankDoes) {
  constexpr int kFewSteps = 5;
  const std::shared_ptr<Model> model =
      models::make_model(GetParam(), testing::small_settings(GetParam()), /*seed=*/5);
  passes::add_training(*model, passes::parse_train_options("adamw,lr=1e-3,eps=1e-4,clip=1.0"));
  const Curve alone = testing::train(model, {}, kFewSteps);
  const std::vector<Curve> ranks = testing::train_on("data=2,tensor=2", model, {}, kFewSteps);
  testing::expect_close(ranks[0], alone, 1e-5);
  for (const Curve& rank : ranks) {
    testing::expect_same_bits(rank, ranks[0]);
    EXPECT_LT(rank.memory.optimizer_bytes, 0.8 * static_cast<double>(alone.memory.optimizer_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, FamilyOnMesh, ::testing::ValuesIn(testing::decoder_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace genesis
