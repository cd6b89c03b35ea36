// Tests that every family of decoders trains on ranks along "data" and "tensor" as on one rank, and decodes on ranks along
// "tensor" as on one.
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

// With more ranks than key heads the heads stay whole. The results of their weights are then gathered before they are taken
// apart, and so are the results of weights that hold several matrices.
TEST(FamiliesOnMeshes, DecodeAsOneRankDoes) {
  const std::vector<std::string> two = {"tensor=2"}, four = {"tensor=4"}, both = {"tensor=2", "tensor=4"};
  for (const auto& [family, meshes] : {std::pair("qwen3", four),
                                       {"gemma2", two},
                                       {"lfm2", two},
                                       {"bamba", both},
                                       {"falcon_h1", two},
                                       {"nemotron_h", two},
                                       {"qwen3_5_moe", two},
                                       {"qwen3_next", both},
                                       {"deepseek_v2", two},
                                       {"deepseek_v3", both},
                                       {"gpt_oss", two}}) {
    SCOPED_TRACE(family);
    testing::expect_decodes_as_alone(models::make_model(family, testing::small_settings(family), /*seed=*/5),
                                     meshes);
  }
}

}  // namespace
}  // namespace genesis
