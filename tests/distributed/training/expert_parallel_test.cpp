// Tests mixtures of experts on ranks that each have some experts, against one rank that has all of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "executor/session.h"
#include "executor/training/batch_source.h"
#include "models/zoo.h"
#include "passes/distribution/expert_shards.h"
#include "passes/training/expert_load.h"
#include "passes/training/train_step.h"
#include "schema/ranks/mesh_groups.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"
#include "tests/models/small_families.h"

namespace genesis {
namespace {

using testing::Curve;

constexpr int kFewSteps = 5;

std::shared_ptr<Model> trained(const std::string& family, const std::string& options) {
  const std::shared_ptr<Model> model =
      models::make_model(family, testing::small_settings(family), /*seed=*/5);
  passes::add_training(*model, passes::parse_train_options(options));
  return model;
}

struct Case {
  const char *family, *mesh;
  int zero = 0;
  const char* more = "";
};

class ExpertMesh : public ::testing::TestWithParam<Case> {};

TEST_P(ExpertMesh, TrainsAsOneRankDoes) {
  const auto& [family, mesh, zero, more] = GetParam();
  const auto model = trained(family, std::string("adamw,lr=1e-3,eps=1e-4,clip=1.0") + more);
  const Curve alone = testing::train(model, {}, kFewSteps);
  const std::vector<Curve> ranks = testing::train_on(mesh, model, {.zero = zero}, kFewSteps);
  testing::expect_close(ranks[0], alone, 1e-5);
  for (const Curve& rank : ranks) {
    testing::expect_same_bits(rank, ranks[0]);
    EXPECT_LT(rank.memory.optimizer_bytes, 0.8 * static_cast<double>(alone.memory.optimizer_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertMesh,
                         ::testing::Values(Case{"qwen3_moe", "expert=2"}, Case{"qwen2_moe", "expert=4"},
                                           Case{"gpt_oss", "expert=2,data=2"},
                                           Case{"deepseek_v3", "data=2,expert=2", 1},
                                           Case{"qwen2_moe", "expert=2,tensor=2"},
                                           Case{"mixtral", "expert=2", 3, ",accumulate=2"},
                                           Case{"qwen3_next", "expert=2", 2}));

// In bf16 tokens are exchanged in bf16, and sums over ranks round once more.
TEST(ExpertMeshes, InLowPrecisionIsCloseAndTheSameOnAllRanks) {
  const auto model = trained("qwen3_moe", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=bf16");
  const Curve alone = testing::train(model, {}, kFewSteps);
  const std::vector<Curve> ranks = testing::train_on("expert=2", model, {}, kFewSteps);
  for (size_t i = 0; i < alone.losses.size(); ++i)
    EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 2e-3 * alone.losses[i]);
  testing::expect_same_bits(ranks[1], ranks[0]);
}

TEST(ExpertMeshes, DecodeAsOneRankDoes) {
  for (const auto& [family, mesh] : {std::pair("qwen2_moe", "expert=2"),
                                     {"qwen2_moe", "expert=2,tensor=2"},
                                     {"gpt_oss", "expert=2,tensor=2"},
                                     {"deepseek_v3", "expert=4"},
                                     {"deepseek_v2", "expert=2"},
                                     {"glm4_moe", "expert=2"},
                                     {"minimax_m2", "expert=2"},
                                     {"olmoe", "expert=2"},
                                     {"granitemoehybrid", "expert=2"},
                                     {"nemotron_h", "expert=2"},
                                     {"qwen3_5_moe", "expert=2"},
                                     {"deepseek_v3", "expert=2,tensor=2"}})
    testing::expect_decodes_as_alone(models::make_model(family, testing::small_settings(family), /*seed=*/5),
                                     {mesh});
}

// With many more classes than features each rank computes the logits of a half of them.
TEST(ExpertMeshes, ShareTheHeadOfADecodingStep) {
  models::Settings settings = testing::small_settings("qwen2_moe");
  settings["vocab_size"] = "512";
  const std::shared_ptr<Model> model = models::make_model("qwen2_moe", settings, /*seed=*/5);
  testing::expect_decodes_as_alone(model, {"expert=2"});
  const Mesh mesh = Mesh::parse("expert=2");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = std::move(collectives)});
    const Plan& plan = session.plan("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {3})},
                                               {"position", Tensor::of<int64_t>({1}, {0})}});
    EXPECT_EQ(std::ranges::count_if(plan.steps, [](const Step& s) { return s.op->name() == "all_gather"; }),
              1);
  });
}

TEST(ExpertMeshes, SayWhyExpertsCannotBeShared) {
  const auto model = trained("qwen3_moe", "adamw");
  const auto error = [&](const char* mesh) {
    return testing::error_of([&] { passes::find_expert_shards(*model, Mesh::parse(mesh), 0); });
  };
  EXPECT_NE(error("expert=3").find("cannot share the 4 experts of"), std::string::npos) << error("expert=3");
  EXPECT_NE(error("expert=3").find("take 2, 4 ranks"), std::string::npos) << error("expert=3");
  EXPECT_NE(error("expert=2,pipeline=2").find("cannot be combined"), std::string::npos);
  const auto dense = testing::training("qwen2", "adamw");
  const std::string none =
      testing::error_of([&] { passes::find_expert_shards(*dense, Mesh::parse("expert=2"), 0); });
  EXPECT_NE(none.find("this model has no experts"), std::string::npos) << none;
}

// Blocks of 256 do not divide these experts, so their moments are f32.
TEST(ExpertMeshes, ShareSmallExpertsWithMomentsOf8Bits) {
  models::Settings settings = testing::small_settings("qwen3_moe");
  settings["hidden_size"] = settings["moe_intermediate_size"] = "24";
  settings["num_experts"] = "8";
  const std::shared_ptr<Model> model = models::make_model("qwen3_moe", settings, /*seed=*/5);
  passes::add_training(*model, passes::parse_train_options("adamw,moments=8bit"));
  EXPECT_FALSE(passes::find_expert_shards(*model, Mesh::parse("expert=4"), 0).groups.empty());
}

// "data" names all ranks that share a batch, in the order of the mesh's axes.
TEST(ExpertMeshes, CountRanksOfOneBatchTogether) {
  const Mesh mesh = Mesh::parse("data=2,expert=2,tensor=2");
  EXPECT_EQ(mesh.size("data"), 4);
  EXPECT_EQ(mesh.size(kReplicaAxis), 2);
  EXPECT_EQ(mesh.size(kExpertShardAxis), 4);
  EXPECT_EQ(mesh.group(5, "data"), (std::vector<int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(mesh.group(5, "expert"), (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(mesh.group(5, kReplicaAxis), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(mesh.group(5, kExpertShardAxis), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.place(5, "data"), 2);
  EXPECT_EQ(group_names(mesh).size(), 5u);
  EXPECT_EQ(Mesh::parse("data=2,tensor=2").size(kExpertShardAxis), 1);
  EXPECT_EQ(group_names(Mesh::parse("data=2,tensor=2")).size(), 2u);
}

TEST(ExpertLoad, IsTheShareOfEachExpertOnAllRanks) {
  const std::shared_ptr<Model> model =
      models::make_model("qwen3_moe", testing::small_settings("qwen3_moe"), /*seed=*/5);
  for (int i = 0; i < 2; ++i) passes::add_expert_load(*model);  // the second time it is there already
  passes::add_training(*model, passes::parse_train_options("adamw,lr=1e-3,accumulate=2"));
  const auto loads = [&](SessionOptions options) {
    options.threads = 1;
    const auto source =
        share_of(std::make_unique<testing::Numbers>(model->entry("train_step")), options.mesh, options.rank);
    Session session(model, options);
    return session.run("train_step", source->batch(0)).at(passes::kExpertLoad);
  };
  const Tensor alone = loads({});
  EXPECT_EQ(alone.type().shape.to_string(), "[2,4]");
  const std::vector<double> shares = alone.to_doubles();
  for (int layer = 0; layer < 2; ++layer)
    EXPECT_NEAR(shares[4 * layer] + shares[4 * layer + 1] + shares[4 * layer + 2] + shares[4 * layer + 3], 1,
                1e-6);
  const Mesh mesh = Mesh::parse("expert=2");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    const Tensor shared = loads({.mesh = mesh, .rank = rank, .collectives = collectives});
    EXPECT_LT(testing::relative_difference(shared, alone), 1e-6);
  });
  EXPECT_NE(testing::error_of([&] {
              passes::add_expert_load(*testing::small_model("qwen2"));
            }).find("no experts whose load"),
            std::string::npos);
}

}  // namespace
}  // namespace genesis
