// Checkpoints that transformers made (hugging_face/make_checkpoints.py) compute what transformers computed from them;
// folders that are damaged, or hold what is not supported, are refused in words.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "executor/state_dict.h"
#include "models/hugging_face/config.h"
#include "models/hugging_face/import.h"
#include "models/text/generate.h"
#include "schema/file/foreign/safetensors.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/op_harness.h"
#include "tests/sanitized.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
using nlohmann::json;
using testing::expect_error;

fs::path checkpoints() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models/hugging_face"; }

json read(const fs::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

class HuggingFace : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return checkpoints() / GetParam(); }
  std::vector<int64_t> prompt() const { return all_["prompt"]; }
  json expected() const { return all_["models"][GetParam()]; }

  const json all_ = read(checkpoints() / "expected.json");
};

TEST_P(HuggingFace, ComputesWhatTransformersDoes) {
  std::shared_ptr<const Model> model = hf::import_model(folder(), {{"dtype", "f32"}});
  Session session = text::open_for_generation(model, {.threads = 2});
  const auto tokens = prompt();
  const auto count = static_cast<int64_t>(tokens.size());
  const auto logits =
      session.run("forward", {{"tokens", Tensor::of<int64_t>({1, count}, tokens)}}).at("logits").to_doubles();
  const std::vector<double> last = expected()["logits"];
  const size_t first = logits.size() - last.size();
  for (size_t i = 0; i < last.size(); ++i)
    EXPECT_NEAR(logits[first + i], last[i], 1e-5 * (1 + std::abs(last[i])));
  const auto greedy = text::generate(session, tokens, {.max_tokens = 12, .temperature = 0}).tokens;
  EXPECT_EQ(greedy, expected()["greedy"].get<std::vector<int64_t>>());
}

TEST_P(HuggingFace, TravelsInAFile) {
  const auto model = hf::import_model(folder());
  const fs::path file = fs::temp_directory_path() / ("genesis_imported_" + GetParam() + ".genesis");
  save_model(*model, file);
  const auto loaded = load_model(file);
  fs::remove(file);
  EXPECT_EQ(json::parse(loaded->metadata.at("config.json")), read(folder() / "config.json"));
  const NamedTensors before = state_dict(*model), after = state_dict(*loaded);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    const Tensor& other = after.at(name);
    ASSERT_EQ(tensor.type(), other.type()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), other.data(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HuggingFace,
                         ::testing::Values("gpt2", "llama_bf16", "qwen2_sharded", "qwen2_tied", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST(HuggingFaceImport, KeepsTheDtypeOfTheCheckpoint) {
  const auto model = hf::import_model(checkpoints() / "llama_bf16");
  EXPECT_EQ(model->state(model->find_state("lm_head.weight")).type.dtype, DType::bf16);
}

// A copy of a checkpoint that a test spoils.
class SpoiltFolder : public ::testing::Test {
 protected:
  void copy(const char* name) {
    fs::copy(checkpoints() / name, folder_,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }
  void write(const char* file, const std::string& text) { std::ofstream(folder_ / file) << text; }
  void change(const char* file, const std::function<void(json&)>& how) {
    json contents = read(folder_ / file);
    how(contents);
    write(file, contents.dump());
  }
  void refused(const std::vector<std::string>& parts, const models::Settings& changes = {}) {
    expect_error([&] { hf::import_model(folder_, changes); }, parts);
  }
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::temp_directory_path() / "genesis_spoilt_checkpoint";
};

TEST_F(SpoiltFolder, WithoutItsFiles) {
  refused({"there is no config.json", folder_.string()});
  copy("qwen2_tied");
  fs::remove(folder_ / "model.safetensors");
  refused({"neither model.safetensors nor", "save_pretrained"});
  copy("qwen2_sharded");
  fs::remove(folder_ / "model-00002-of-00003.safetensors");
  refused({"model-00002-of-00003.safetensors", "missing"});
}

TEST_F(SpoiltFolder, WithAConfigurationThatLies) {
  copy("qwen2_tied");
  for (const char* text : {"", "[1, 2]", "{\"model_type\": ", "\"qwen2\"", "{}"}) {
    write("config.json", text);
    refused({"config.json"});
  }
  write("config.json", std::string(100'000, '['));
  refused({"config.json", "deep"});
  copy("qwen2_tied");
  change("config.json",
         [](json& c) { c["hidden_size"] = -4, c["vocab_size"] = "many", c["rms_norm_eps"] = nullptr; });
  refused({"hidden_size is -4", "vocab_size is \"many\""});
  copy("qwen2_tied");
  change("config.json", [](json& c) { c["hidden_size"] = 17; });
  refused({"hidden_size 17"});
}

// Quadratic once: half a minute.
TEST_F(SpoiltFolder, WithAConfigurationOfManyMembers) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"k" + std::to_string(i) + "\": {}, ";
  write("config.json", text + "\"model_type\": \"mamba\"}");
  const double start = testing::processor_seconds();
  refused({"model_type is \"mamba\""});
  EXPECT_LT(testing::processor_seconds() - start, 5);
}

TEST_F(SpoiltFolder, WithSettingsThatAreNotSupportedNamesThemAll) {
  copy("qwen3");
  change("config.json", [](json& c) {
    c["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "yarn"}, {"factor", 4.0}};
    c["use_sliding_window"] = true;
    c["layer_types"][1] = "sliding_attention";
    c["hidden_act"] = "gelu";
    c["attention_bias"] = true;
    c["dtype"] = "float8_e4m3fn";
  });
  refused({"rope_parameters.rope_type: \"yarn\"", "use_sliding_window: true",
           "layer_types: \"sliding_attention\"", "hidden_act: \"gelu\"", "attention_bias: true",
           "dtype is \"float8_e4m3fn\""});
  write("config.json", R"({"model_type": "mamba"})");
  refused({"model_type is \"mamba\"", "gpt2, llama, qwen2 or qwen3"});
}

TEST_F(SpoiltFolder, WithOtherTensors) {
  copy("qwen3");
  SafeTensors weights = read_safetensors(folder_ / "model.safetensors");
  const std::string norm = "model.norm.weight";
  weights.tensors["model.layers.7.extra"] = weights.tensors.at(norm);
  weights.tensors["model.layers.0.mlp.up_proj.weight"] = weights.tensors.at(norm);
  weights.tensors.erase(norm);
  write_safetensors(folder_ / "model.safetensors", weights);
  refused({"1 missing: model.norm.weight", "model.layers.7.extra",
           "model.layers.0.mlp.up_proj.weight is f32[16]"});
}

TEST_F(SpoiltFolder, WithAnIndexThatLies) {
  copy("qwen2_sharded");
  const char* index = "model.safetensors.index.json";
  for (const char* file : {"../secret", "/etc/passwd", "", ".."}) {
    change(index, [&](json& i) { i["weight_map"]["lm_head.weight"] = file; });
    refused({index, "lm_head.weight", "not one of this folder"});
  }
  change(index, [&](json& i) { i["weight_map"]["lm_head.weight"] = 3; });
  refused({index, "is no text"});
  change(index, [&](json& i) { i["weight_map"]["lm_head.weight"] = "model-00001-of-00003.safetensors"; });
  refused({"lm_head.weight", "is not where"});
  write(index, "{}");
  refused({index, "weight_map"});
}

TEST_F(SpoiltFolder, TakesChangesOfTheZoo) {
  copy("qwen2_tied");
  const auto model = hf::import_model(folder_, {{"max_position_embeddings", "128"}, {"dtype", "bf16"}});
  EXPECT_EQ(model->state(model->find_state("model.norm.weight")).type.dtype, DType::bf16);
  for (const State& state : model->states())
    if (state.role == StateRole::kCache) {
      EXPECT_EQ(state.type.shape[1], Dim(128));
    }
  refused({"no setting 'max_positions'", "max_position_embeddings"}, {{"max_positions", "128"}});
}

// As version 4 of transformers wrote them.
TEST(HuggingFaceConfig, OlderSpellings) {
  json config = read(checkpoints() / "qwen2_tied/config.json");
  for (const char* name : {"rope_parameters", "dtype", "layer_types"}) config.erase(name);
  config["rope_theta"] = 5e5;
  config["rope_scaling"] = nullptr;
  config["torch_dtype"] = "bfloat16";
  config["sliding_window"] = 4096;
  const auto read = hf::read_config(config, "config.json");
  EXPECT_EQ(read.settings.at("rope_theta"), "500000");
  EXPECT_EQ(read.settings.at("dtype"), "bf16");
}

}  // namespace
}  // namespace genesis
