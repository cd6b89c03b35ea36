// Tests that GGUF files of the families, which the package gguf wrote as llama.cpp's converter does (gguf/make_families.py) or which
// this converter wrote itself (gguf/make_hybrids.py), give the logits of transformers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "executor/session.h"
#include "executor/state_dict.h"
#include "models/formats/gguf/config.h"
#include "models/formats/gguf/import.h"
#include "models/formats/hugging_face/export.h"
#include "models/formats/hugging_face/import.h"
#include "models/reordered_rows.h"
#include "schema/file/other_formats/gguf.h"
#include "tests/models/checkpoints.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::gguf::import_model;
using nlohmann::json;
using testing::checkpoints;
using testing::expect_error;
using testing::read_json;

fs::path files() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models/gguf/families"; }

void expect_logits(const std::shared_ptr<const Model>& model, const std::vector<int64_t>& tokens,
                   const std::vector<double>& expected) {
  Session session(model, {.threads = 2});
  const Tensor row = Tensor::of<int64_t>({1, std::ssize(tokens)}, tokens);
  const auto all = session.run("forward", {{"tokens", row}}).at("logits").to_doubles();
  ASSERT_GE(all.size(), expected.size());
  const size_t first = all.size() - expected.size();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(all[first + i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << "token " << i;
}

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(tensor.to_doubles(), b.at(name).to_doubles()) << name;
  }
}

class GgufFamily : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path file() const { return files() / (GetParam() + ".gguf"); }
};

TEST_P(GgufFamily, ComputesWhatTransformersDoes) {
  const std::shared_ptr<const Model> model = import_model(file(), {{"dtype", "f32"}});
  EXPECT_TRUE(GetParam().starts_with(model->metadata.at("architecture")))
      << model->metadata.at("architecture");
  const json texts = read_json(checkpoints() / "expected.json"),
             expected = read_json(files() / "expected.json");
  expect_logits(model, texts["prompt"], expected[GetParam()]["logits"]);
  expect_logits(model, texts["long"], expected[GetParam()]["long_logits"]);
}

// The settings of the file are those that config.json says.
TEST_P(GgufFamily, GoesOutAsACheckpoint) {
  const testing::TemporaryFolder folder;
  const auto model = import_model(file(), {{"dtype", "f32"}});
  models::hugging_face::export_model(*model, folder / "out");
  const auto same = models::hugging_face::import_model(folder / "out");
  expect_same(state_dict(*same), state_dict(*model));
  const json texts = read_json(checkpoints() / "expected.json"),
             expected = read_json(files() / "expected.json");
  expect_logits(models::hugging_face::import_model(folder / "out"), texts["long"],
                expected[GetParam()]["long_logits"]);
}

// Reads a file of one of the tests, changes it, and expects that it is refused with these parts of a message.
void refused(const char* name, const std::function<void(Gguf&)>& change,
             const std::vector<std::string>& parts) {
  Gguf file = read_gguf(files() / (std::string(name) + ".gguf"));
  change(file);
  expect_error([&] { models::gguf::read_config(file); }, parts);
}

TEST(GgufFamilies, RefuseWhatContradictsItself) {
  refused("phi3", [](Gguf& g) { g.tensors.erase("rope_factors_short.weight"); },
          {"there is rope_factors_long.weight without rope_factors_short.weight"});
  refused("phi3", [](Gguf& g) { g.metadata["phi3.rope.dimension_count"] = int64_t{10}; },
          {"phi3.rope.dimension_count is 10", "the size of a head, 8"});
  refused("cohere2",
          [](Gguf& g) { g.metadata["cohere2.attention.sliding_window_pattern"] = std::string(1, '\1'); },
          {"attention.sliding_window_pattern", "one for each layer"});
  refused("seed_oss", [](Gguf& g) { g.metadata["seed_oss.attention.sliding_window"] = int64_t{4}; },
          {"attention.sliding_window is 4, expected none"});
  refused("glm4", [](Gguf& g) { g.metadata["glm4.rope.scaling.type"] = std::string("longrope"); },
          {"rope.scaling.type is 'longrope', expected none"});
}

TEST(GgufFamilies, RefuseSizesOfHybridsThatContradictThemselves) {
  refused("qwen3_5", [](Gguf& g) { g.metadata["qwen35.ssm.time_step_rank"] = int64_t{3}; },
          {"ssm.time_step_rank is 3, expected a multiple of 2"});
  refused("qwen3_next", [](Gguf& g) { g.metadata["qwen3next.ssm.inner_size"] = int64_t{17}; },
          {"ssm.inner_size is 17", "a multiple of ssm.time_step_rank, 4"});
  refused("deepseek_v2", [](Gguf& g) { g.metadata["deepseek2.attention.key_length_mla"] = int64_t{4}; },
          {"attention.key_length_mla is 4, expected more than rope.dimension_count, 4"});
  refused("deepseek_v3", [](Gguf& g) { g.metadata["deepseek2.expert_gating_func"] = int64_t{1}; },
          {"expert_gating_func: 1"});
  refused("gemma4", [](Gguf& g) { g.metadata["gemma4.feed_forward_length"] = std::vector<int64_t>(5, 0); },
          {"feed_forward_length", "a size, which may double"});
  refused("glm4_moe", [](Gguf& g) { g.metadata["glm4moe.nextn_predict_layers"] = int64_t{2}; },
          {"nextn_predict_layers is 2, expected less than block_count"});
}

// Sizes that the tensors do not have are refused before anything of these sizes is made.
TEST(GgufFamilies, RefuseHugeSizesOfHeadsInSmallFiles) {
  const testing::TemporaryFolder folder;
  const auto refused_as = [&](const char* name, const std::map<std::string, uint32_t>& sizes,
                              const std::vector<std::string>& parts) {
    std::string bytes = testing::read_bytes(files() / (std::string(name) + ".gguf"));
    for (const auto& [key, size] : sizes) {
      const size_t at = bytes.find(key);
      ASSERT_NE(at, std::string::npos) << key;
      std::memcpy(&bytes[at + key.size() + sizeof(uint32_t)], &size, sizeof(size));  // behind the key's type
    }
    testing::write_bytes(folder / "m.gguf", bytes);
    expect_error([&] { import_model(folder / "m.gguf", {{"dtype", "f32"}}); }, parts);
  };
  const uint32_t huge = (1u << 31) - 1;
  refused_as("deepseek_v2", {{"attention.key_length_mla", huge}}, {"kv_b_proj", "heads of 2147483643 keys"});
  refused_as("deepseek_v2", {{"attention.value_length_mla", huge}}, {"kv_b_proj", "of 2147483647 values"});
  const std::map<std::string, uint32_t> heads = {{"ssm.group_count", 1u << 16},
                                                 {"ssm.time_step_rank", 1u << 16},
                                                 {"ssm.inner_size", 1u << 31},
                                                 {"ssm.state_size", 1u << 20}};
  refused_as("qwen3_next", heads, {"in_proj_qkvz", "rows, expected 141733920768 by the sizes"});
  refused_as("qwen3_5", heads, {"out_proj", "16 columns, expected 2147483648 by the sizes"});
  refused_as("qwen3_5", {{"ssm.state_size", 1u << 20}}, {"linear_attn"});
}

TEST(GgufFamilies, JoinMatricesAlone) {
  const Tensor row = Tensor::of<float>({2}, {1, 2}), matrix = Tensor::of<float>({{1, 2}});
  expect_error([&] { models::rows_in_order({row, row}, {0, 1, 2, 3}); }, {"[2]", "expected rows"});
  expect_error([&] { models::rows_in_order({matrix, row}, {0, 1, 2}); }, {"[2]", "expected rows"});
}

// Files of DeepSeek-V2 may say that the factors of the experts are not normalized, which those of DeepSeek-V3 are.
TEST(GgufFamilies, KnowDeepseekV2ByFactorsThatAreNotNormalized) {
  Gguf file = read_gguf(files() / "deepseek_v2.gguf");
  file.metadata["deepseek2.expert_weights_norm"] = false;
  file.metadata["deepseek2.expert_gating_func"] = int64_t{1};
  EXPECT_EQ(models::gguf::read_config(file).family->name, "deepseek_v2");
}

json settings_of(const char* name, const std::function<void(Gguf&)>& change) {
  Gguf file = read_gguf(files() / (std::string(name) + ".gguf"));
  change(file);
  return models::gguf::read_config(file).settings;
}

// A pattern of 2 gives windows to the first and the last of three layers, one of 1 to none, and one of 0 to all.
TEST(GgufFamilies, ReadPatternsOfWindows) {
  const auto types = [](GgufValue pattern) {
    return settings_of("cohere2",
                       [&](Gguf& g) {
                         g.metadata["cohere2.block_count"] = int64_t{3};
                         g.metadata["cohere2.attention.sliding_window_pattern"] = pattern;
                       })
        .value("layer_types", json());
  };
  const char *full = "full_attention", *sliding = "sliding_attention";
  EXPECT_EQ(types(int64_t{2}), (json{sliding, full, sliding}));
  EXPECT_EQ(types(std::string("\0\1\1", 3)), (json{full, sliding, sliding}));
  EXPECT_EQ(types(std::vector<int64_t>{1, 0, 0}), (json{sliding, full, full}));
  EXPECT_EQ(types(int64_t{0}), json());
  EXPECT_EQ(settings_of("cohere2",
                        [](Gguf& g) { g.metadata["cohere2.attention.sliding_window_pattern"] = int64_t{1}; })
                .at("sliding_window"),
            0);
}

// The last blocks of a file may predict further tokens.
TEST(GgufFamilies, CountNoBlocksThatPredictFurtherTokens) {
  EXPECT_EQ(settings_of("glm4_moe", [](Gguf& g) { g.metadata["glm4moe.nextn_predict_layers"] = int64_t{1}; })
                .at("num_hidden_layers"),
            1);
}

// Without a list, every fourth layer of the gated delta rule has attention.
TEST(GgufFamilies, KnowLayersWithAttentionByTheirInterval) {
  const json types = settings_of("qwen3_next", [](Gguf& g) {
                       g.metadata.erase("qwen3next.attention.recurrent_layers");
                       g.metadata["qwen3next.full_attention_interval"] = int64_t{2};
                     }).at("layer_types");
  EXPECT_EQ(types, (json{"linear_attention", "full_attention", "linear_attention"}));
}

// llama.cpp knows the model of 27 billion parameters by its layers.
TEST(GgufFamilies, ScaleTheScoresOfGemmaAsLlamaCppDoes) {
  EXPECT_EQ(settings_of("gemma2", [](Gguf&) {}).at("query_pre_attn_scalar"), 8);
  const json large = settings_of("gemma2", [](Gguf& g) {
    g.metadata["gemma2.block_count"] = int64_t{46};
    for (int i = 0; i < 46; ++i) g.tensors["x" + std::to_string(i)] = g.tensors.at("output_norm.weight");
  });
  EXPECT_EQ(large.at("query_pre_attn_scalar"), 4);
}

std::vector<std::string> names_of_files() {
  std::vector<std::string> names;
  const json expected = read_json(files() / "expected.json");
  for (const auto& [name, results] : expected.items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, GgufFamily, ::testing::ValuesIn(names_of_files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace genesis
