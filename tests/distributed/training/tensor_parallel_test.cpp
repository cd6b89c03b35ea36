// Tests models whose layers the ranks along "tensor" compute together, against one rank that has all of them.
#include <gtest/gtest.h>

#include <set>

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/distribution/tensor_shards.h"
#include "passes/lora/lora.h"
#include "passes/training/train_step.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"
#include "tests/passes/warnings.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_trains_as;
using testing::train;
using testing::train_on;
using testing::training;

class TensorParallel : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(TensorParallel, TrainsAsOneRankDoes) {
  const auto& [name, options, mesh] = GetParam();
  const auto model = training(name, options);
  const Curve alone = train(model, {});
  for (const Curve& rank : expect_trains_as(alone, model, mesh))
    EXPECT_LT(rank.memory.optimizer_bytes, alone.memory.optimizer_bytes);
}

INSTANTIATE_TEST_SUITE_P(Zoo, TensorParallel,
                         ::testing::Values(std::tuple{"mlp", "adamw,lr=1e-3,eps=1e-4", "tensor=2"},
                                           std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "tensor=2"},
                                           std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "tensor=4"},
                                           std::tuple{"gpt2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "tensor=2"},
                                           std::tuple{"qwen3", "adamw,lr=1e-3,eps=1e-4,clip=1.0",
                                                      "data=2,tensor=2"},
                                           std::tuple{"qwen3", "lion,lr=1e-5,clip_value=0.5", "tensor=2"}));

// Without the passes each rank has whole weights and computes everything.
TEST(TensorParallel, WithoutPassesIsTheSame) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0");
  const Curve alone = train(model, {}, 5);
  for (const SessionOptions& options :
       {SessionOptions{.optimize = false}, SessionOptions{.disabled = {"partition"}}})
    expect_close(train_on("tensor=2", model, options, 5)[0], alone, 1e-5);
}

// The gradient of a key's bias is zero except for rounding, so Adam's updates of it are noise. Hence the bound is
// wide.
TEST(TensorParallel, InLowPrecisionIsCloseAndTheSameOnAllRanks) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=bf16");
  const Curve alone = train(model, {}, 10);
  const std::vector<Curve> ranks = train_on("tensor=2", model, {}, 10);
  expect_close(ranks[0], alone, 5e-2);
  for (size_t i = 0; i < alone.losses.size(); ++i)
    EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 2e-3 * alone.losses[i]);
  expect_same_bits(ranks[1], ranks[0]);
}

// Layers are split as in Megatron. A vocabulary that the ranks do not divide, norms, and values added after a sum
// stay whole.
TEST(TensorParallel, CutsAttentionByHeadsAndFeedForwardLayersInside) {
  const auto model = training("qwen2", "adamw,lr=1e-3");
  const StateStorage storage = passes::find_tensor_shards(*model, Mesh::parse("tensor=2"), 1);
  std::map<std::string, std::string> kept;
  for (const StoredGroup& group : storage.groups)
    if (const std::string& name = model->state(group.members[0]).name;
        name.find("layers.1.") != std::string::npos)
      kept[name.substr(name.find("layers.1.") + 9)] = group.shard->shape.to_string();
  const std::map<std::string, std::string> expected = {
      {"self_attn.q_proj.weight", "[16,32]"}, {"self_attn.q_proj.bias", "[16]"},
      {"self_attn.k_proj.weight", "[8,32]"},  {"self_attn.k_proj.bias", "[8]"},
      {"self_attn.v_proj.weight", "[8,32]"},  {"self_attn.v_proj.bias", "[8]"},
      {"self_attn.o_proj.weight", "[32,16]"}, {"mlp.gate_proj.weight", "[40,32]"},
      {"mlp.up_proj.weight", "[40,32]"},      {"mlp.down_proj.weight", "[32,40]"},
      {"self_attn.k_cache", "[1,32,1,8]"},    {"self_attn.v_cache", "[1,32,1,8]"}};
  for (const auto& [name, shape] : expected) EXPECT_EQ(kept[name], shape) << name;
  for (const auto& [name, shape] : kept)
    EXPECT_TRUE(expected.contains(name) || name.ends_with(".m") || name.ends_with(".v")) << name;
}

// In bf16 the adapters of q, k and v are merged, and their second weights form a block diagonal. Ranks still get the
// shard of their heads.
TEST(TensorParallel, CutsAdaptersWithTheirLayers) {
  const std::shared_ptr<Model> model = testing::small_model("qwen2");
  passes::add_lora(*model, {.rank = 4});
  passes::add_training(*model, passes::parse_train_options("adamw,lr=1e-3,eps=1e-4,precision=bf16"));
  const StateStorage storage = passes::find_tensor_shards(*model, Mesh::parse("tensor=2"), 1);
  std::set<std::string> cut;
  for (const StoredGroup& group : storage.groups) cut.insert(model->state(group.members[0]).name);
  for (const char* layer : {"q_proj", "k_proj", "v_proj"})
    for (const char* weight : {".weight", ".lora_B.weight"})
      EXPECT_TRUE(cut.contains(std::string("model.layers.1.self_attn.") + layer + weight)) << layer << weight;
  const Curve alone = train(model, {}, 10);
  const std::vector<Curve> ranks = train_on("tensor=2", model, {}, 10);
  for (size_t i = 0; i < alone.losses.size(); ++i)
    EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 2e-3 * alone.losses[i]);
  expect_same_bits(ranks[1], ranks[0]);
}

TEST(TensorParallel, SaysWhyNothingCanBeCut) {
  const auto model = training("qwen2", "adamw,lr=1e-3");
  const std::string error =
      testing::error_of([&] { passes::find_tensor_shards(*model, Mesh::parse("tensor=3"), 0); });
  EXPECT_NE(error.find("3 ranks along 'tensor' cannot share any layer of this model"), std::string::npos)
      << error;
  EXPECT_NE(error.find("3 ranks do not divide 80 (take 2 or 4)"), std::string::npos) << error;
}

// Sizes that the ranks divide, unlike the blocks of their moments.
TEST(TensorParallel, SaysWhatMomentsOf8BitsKeepWhole) {
  const auto shards = [](const char* hidden, const char* intermediate, const char* moments) {
    const std::shared_ptr<Model> model = models::make_model("qwen2",
                                                            {{"vocab_size", "61"},
                                                             {"hidden_size", hidden},
                                                             {"intermediate_size", intermediate},
                                                             {"num_hidden_layers", "1"},
                                                             {"num_attention_heads", "4"},
                                                             {"num_key_value_heads", "2"},
                                                             {"max_position_embeddings", "32"}},
                                                            5);
    passes::add_training(*model, passes::parse_train_options(std::string("adamw") + moments));
    return passes::find_tensor_shards(*model, Mesh::parse("tensor=2"), 0).groups.size();
  };
  const std::string why = "moments=8bit keeps blocks of 256, which 2 ranks would cut: train with f32 moments";
  const std::string warning =
      testing::warnings_of([&] { EXPECT_GT(shards("512", "2816", ",moments=8bit"), 0u); });
  EXPECT_NE(warning.find(why), std::string::npos) << warning;
  EXPECT_NE(warning.find("mlp."), std::string::npos) << warning;
  const std::string error = testing::error_of([&] { shards("896", "4864", ",moments=8bit"); });
  EXPECT_NE(error.find(why), std::string::npos) << error;
  EXPECT_EQ(error.find("scales"), std::string::npos) << error;
  EXPECT_EQ(testing::warnings_of([&] {
              EXPECT_GT(shards("512", "2816", ""), 0u);
              EXPECT_GT(shards("512", "512", ",moments=8bit"), 0u);
            }),
            "");
}

// Caches are sharded by heads. The table, which is also the head, is tested both whole and sharded.
TEST(TensorParallel, DecodesAsOneRankDoes) {
  for (const char* name : {"qwen2", "qwen3", "gpt2"})
    for (const int64_t vocabulary : {61, 64})
      testing::expect_decodes_as_alone(testing::small_model(name, vocabulary), {"tensor=2"});
}

// Each rank computes a shard of the logits, which are gathered.
TEST(TensorParallel, CutsAHeadOfItsOwn) {
  const std::shared_ptr<const Model> model = testing::small_model("qwen2", 64, false);
  const StateStorage storage = passes::find_tensor_shards(*model, Mesh::parse("tensor=2"), 0);
  const auto is_head = [&](const StoredGroup& group) {
    return model->state(group.members[0]).name == "lm_head.weight";
  };
  const auto head = std::find_if(storage.groups.begin(), storage.groups.end(), is_head);
  ASSERT_NE(head, storage.groups.end());
  EXPECT_EQ(head->shard->shape.to_string(), "[32,32]");
  testing::expect_decodes_as_alone(model, {"tensor=2"});
}

}  // namespace
}  // namespace genesis
