// Tests that export writes what transformers wrote (hugging_face/), that it imports as the same model, and that a
// folder is written completely or not at all. hugging_face/check_export.py checks that transformers opens it and
// computes the same.
#include "models/formats/hugging_face/export.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/state_dict.h"
#include "models/families.h"
#include "models/formats/hugging_face/import.h"
#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/models/checkpoints.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
using nlohmann::json;
using testing::expect_error;
using testing::read_json;

fs::path checkpoint(const std::string& name) { return testing::checkpoints() / name; }

// Returns the tensors of all safetensors files of a folder.
std::map<std::string, Tensor> tensors_in(const fs::path& folder) {
  std::map<std::string, Tensor> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") all.merge(read_safetensors(entry.path()).tensors);
  return all;
}

void expect_same(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    ASSERT_EQ(tensor.type(), b.at(name).type()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), b.at(name).data(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
}

const models::Settings kTiny = {{"vocab_size", "61"},         {"hidden_size", "32"},
                                {"intermediate_size", "80"},  {"num_hidden_layers", "2"},
                                {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}};

class Export : public ::testing::Test {
 protected:
  fs::path out() const { return folder_ / "out"; }
  size_t count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  void refused(const Model& model, const std::vector<std::string>& parts,
               const hf::ExportOptions& options = {}) {
    const size_t before = count();
    expect_error([&] { hf::export_model(model, out(), options); }, parts);
    EXPECT_EQ(count(), before) << "something was left";
  }

  const testing::TemporaryFolder folder_;
};

class ExportOfImported : public Export, public ::testing::WithParamInterface<std::string> {};

TEST_P(ExportOfImported, IsTheCheckpointThatCameIn) {
  const auto exported = hf::export_model(*hf::import_model(checkpoint(GetParam())), out());
  EXPECT_EQ(read_json(out() / "config.json"), read_json(checkpoint(GetParam()) / "config.json"));
  expect_same(tensors_in(out()), tensors_in(checkpoint(GetParam())));
  EXPECT_EQ(exported.files, (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(read_safetensors(out() / "model.safetensors").metadata.at("format"), "pt");
}

TEST_P(ExportOfImported, InShardsIsTheSame) {
  hf::export_model(*hf::import_model(checkpoint(GetParam())), out(), {.shard_bytes = 3000});
  EXPECT_FALSE(fs::exists(out() / "model.safetensors"));
  const json index = read_json(out() / "model.safetensors.index.json");
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors_in(out())) bytes += tensor.bytes();
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
  for (const auto& entry : fs::directory_iterator(out())) {
    if (entry.path().extension() != ".safetensors") continue;
    int64_t held = 0;
    const auto tensors = read_safetensors(entry.path()).tensors;
    for (const auto& [name, tensor] : tensors) held += tensor.bytes();
    EXPECT_TRUE(held <= 3000 || tensors.size() == 1) << entry.path();
  }
  expect_same(state_dict(*hf::import_model(out())), state_dict(*hf::import_model(checkpoint(GetParam()))));
}

// All checkpoints, but for those of models that read images: of these the language model goes out alone.
std::vector<std::string> whole_checkpoints() {
  std::vector<std::string> names;
  const json expected = read_json(checkpoint("expected.json"));
  for (const auto& [name, results] : expected["models"].items())
    if (!name.ends_with("_vl")) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, ExportOfImported, ::testing::ValuesIn(whole_checkpoints()),
                         [](const auto& info) { return info.param; });

TEST_F(Export, OfAModelThatReadsImagesIsTheLanguageModel) {
  for (const auto& [name, type] : {std::pair("qwen2_5_vl", "qwen2"), {"qwen3_vl", "qwen3"}}) {
    const auto model = hf::import_model(checkpoint(name));
    hf::export_model(*model, out());
    EXPECT_EQ(read_json(out() / "config.json")["model_type"], type);
    expect_same(state_dict(*hf::import_model(out())), state_dict(*model));
    const auto whole = tensors_in(checkpoint(name)), text = tensors_in(out());
    EXPECT_LT(text.size(), whole.size());
    for (const auto& [key, tensor] : text) {
      const std::string longer = whole.contains(key) ? key : "model.language_model." + key.substr(6);
      ASSERT_TRUE(whole.contains(longer)) << longer;
      EXPECT_EQ(tensor.to_doubles(), whole.at(longer).to_doubles()) << key;
    }
    fs::remove_all(out());
  }
}

class ExportOfZoo : public Export, public ::testing::WithParamInterface<std::string> {
 protected:
  models::Settings settings() const {
    if (GetParam() == "gpt2") return {{"n_embd", "32"}, {"n_layer", "2"}, {"layer_norm_epsilon", "1e-4"}};
    if (GetParam() == "mamba2")
      return {{"hidden_size", "32"},
              {"num_hidden_layers", "2"},
              {"rms_norm_eps", "3e-6"},
              {"cache_positions", "4096"},
              {"mamba_n_heads", "4"}};
    const bool is_encoder = models::find_family(GetParam())->network.settings.contains("head");
    if (is_encoder) {
      models::Settings settings = {{"hidden_size", "32"}, {"num_hidden_layers", "2"}, {"hidden_act", "relu"}};
      if (GetParam() != "distilbert") settings["layer_norm_eps"] = "3e-6";
      if (GetParam() == "modernbert") settings["layer_types"] = "sliding_attention,full_attention";
      return settings;
    }
    models::Settings settings = kTiny;
    settings.insert({{"rope_theta", "12345.5"}, {"rms_norm_eps", "3e-6"}, {"head_dim", "16"}});
    if (GetParam() == "olmo") settings.erase("rms_norm_eps");  // config.json cannot say it
    if (GetParam() == "cohere2") settings["layer_types"] = "sliding_attention,full_attention";
    return settings;
  }
};

TEST_P(ExportOfZoo, ComesInAsTheSameModel) {
  const auto model = models::make_model(GetParam(), settings(), 3);
  hf::export_model(*model, out());
  const auto again = hf::import_model(out());
  expect_same(state_dict(*again), state_dict(*model));
  json before = parse_json_text(model->metadata.at("config")),
       after = parse_json_text(again->metadata.at("config"));
  for (json* config : {&before, &after}) config->erase("initializer_range");
  EXPECT_EQ(before, after);
}

std::vector<std::string> exported() {
  std::vector<std::string> names;
  for (const models::Family& family : models::families())
    if (family.hugging_face) names.push_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, ExportOfZoo, ::testing::ValuesIn(exported()),
                         [](const auto& info) { return info.param; });

TEST_F(Export, LeavesOutWhatOnlyTrainingNeeds) {
  const auto model = models::make_model("qwen2", kTiny);
  hf::export_model(*model, out());
  const auto plain = tensors_in(out());
  passes::add_training(*model);
  hf::export_model(*model, out(), {.replace = true});
  expect_same(tensors_in(out()), plain);
}

TEST_F(Export, RoundsToTheDtypeAskedFor) {
  const auto model = hf::import_model(checkpoint("gpt2"));
  hf::export_model(*model, out(), {.dtype = DType::bf16});
  EXPECT_EQ(read_json(out() / "config.json")["dtype"], "bfloat16");
  const auto again = hf::import_model(out());
  for (const auto& [name, tensor] : state_dict(*model)) {
    const Tensor rounded = tensor.to(DType::bf16);
    EXPECT_EQ(state_dict(*again).at(name).to_doubles(), rounded.to_doubles()) << name;
  }
}

// Scaled rotations and windows are exported under transformers' names.
TEST_F(Export, OfScaledRotationsAndWindows) {
  const std::vector<models::Settings> kinds = {
      {{"rope_scaling", "linear"}, {"rope_factor", "2.5"}},
      {{"rope_scaling", "dynamic"}, {"rope_factor", "2"}, {"rope_original_positions", "1024"}},
      {{"rope_scaling", "llama3"},
       {"rope_factor", "8"},
       {"rope_original_positions", "64"},
       {"rope_low_freq_factor", "2"}},
      {{"rope_scaling", "yarn"},
       {"rope_factor", "4"},
       {"rope_original_positions", "32"},
       {"rope_beta_fast", "16"},
       {"rope_truncate", "false"},
       {"rope_attention_factor", "1.25"}},
      {{"rope_scaling", "proportional"}, {"rope_factor", "2"}, {"rope_proportion", "0.5"}},
      {{"sliding_window", "7"}, {"layer_types", "sliding_attention,full_attention"}}};
  for (models::Settings settings : kinds) {
    SCOPED_TRACE(settings.begin()->first + " " + settings.begin()->second);
    settings.insert(kTiny.begin(), kTiny.end());
    settings["head_dim"] = "8";  // config.json always contains it, also if it is implied
    const auto model = models::make_model("qwen2", settings, 3);
    hf::export_model(*model, out());
    const auto again = hf::import_model(out());
    json before = parse_json_text(model->metadata.at("config")),
         after = parse_json_text(again->metadata.at("config"));
    for (json* config : {&before, &after}) config->erase("initializer_range");
    EXPECT_EQ(before, after);
    fs::remove_all(out());
  }
  models::Settings llama = kTiny;  // transformers' Llama has no windows
  llama["sliding_window"] = "7";
  refused(*models::make_model("llama", llama), {"cannot say", "sliding_window"});
}

TEST_F(Export, SaysWhatWasChangedSinceTheImport) {
  hf::export_model(*hf::import_model(checkpoint("qwen3"), {{"rope_theta", "5e5"}, {"dtype", "f32"}}), out());
  const json config = read_json(out() / "config.json");
  EXPECT_EQ(config["rope_parameters"]["rope_theta"], 5e5);
  EXPECT_FALSE(config.contains("rope_theta"));
  EXPECT_EQ(config["max_position_embeddings"], 64);
}

// Compares with a model of the zoo with the same settings of rotations and windows.
TEST_F(Export, OfRotationsAndWindowsThatWereChangedSinceTheImport) {
  const std::vector<std::pair<const char*, models::Settings>> changes = {
      {"qwen2_tied", {{"rope_scaling", "yarn"}, {"rope_factor", "4"}, {"rope_original_positions", "16"}}},
      {"qwen2_tied", {{"rope_scaling", "dynamic"}, {"rope_factor", "2"}, {"rope_original_positions", "32"}}},
      {"qwen2_tied", {{"sliding_window", "5"}}},
      {"qwen2_sliding", {{"sliding_window", "3"}, {"rope_theta", "5e5"}}},
      {"qwen2_sliding", {{"sliding_window", "0"}, {"layer_types", ""}}},
      {"llama_llama3", {{"rope_factor", "4"}}},
      {"llama_llama3", {{"rope_scaling", "linear"}, {"rope_theta", "777"}}},
      {"llama_dynamic", {{"rope_scaling", "none"}}},
      {"qwen2_yarn", {{"rope_attention_factor", "1.5"}}},
      {"qwen2_yarn", {{"rope_scaling", "none"}}}};
  for (const auto& [name, settings] : changes) {
    SCOPED_TRACE(std::string(name) + " " + settings.begin()->first + " " + settings.begin()->second);
    const auto model = hf::import_model(checkpoint(name), settings);
    hf::export_model(*model, out());
    const auto again = hf::import_model(out());
    const json before = parse_json_text(model->metadata.at("config")),
               after = parse_json_text(again->metadata.at("config"));
    std::vector<std::string> said = {"rope_theta", "rope_scaling", "sliding_window"};
    if (!before["layer_types"].empty()) said.emplace_back("layer_types");  // otherwise all layers are alike
    if (before["rope_scaling"] != "none") said.emplace_back("rope_factor");
    if (before["rope_scaling"] == "yarn") said.emplace_back("rope_attention_factor");
    for (const std::string& key : said) EXPECT_EQ(before[key], after[key]) << key;
    fs::remove_all(out());
  }
}

TEST_F(Export, KeepsTheLengthThatTheModelReadsNotTheCaches) {
  hf::export_model(*hf::import_model(checkpoint("qwen3"), {{"max_position_embeddings", "16"}}), out());
  EXPECT_EQ(read_json(out() / "config.json")["max_position_embeddings"], 64);
}

TEST_F(Export, OfOtherModelsIsRefused) {
  refused(*models::make_model("mlp", {}), {"'mlp'", models::hugging_face_families("and")});
  refused(Model(), {"architecture", "genesis-build"});
  const auto model = models::make_model("llama", kTiny);
  model->add_state({"model.layers.0.extra", {DType::f32, {3}}, StateRole::kParameter, true, {}});
  refused(*model, {"no llama any more", "model.layers.0.extra is none of its states"});
}

TEST_F(Export, OfMetadataThatLieIsRefused) {
  const auto model = models::make_model("qwen2", kTiny);
  const std::string config = model->metadata.at("config");
  for (const char* lie :
       {"", "[]", "{\"hidden_size\": \"wide\"}", "{\"num_hidden_layers\": 123456789}",
        "{\"num_hidden_layers\": 99999999999999999999}", "{\"hidden_size\": 64}",
        "{\"num_hidden_layers\": -3}", "{\"hidden\": 64}", "{\"num_attention_heads\": 0}"}) {
    model->metadata["config"] = lie;
    EXPECT_THROW(hf::export_model(*model, out()), Error) << lie;
  }
  model->metadata["config"] = config;
  for (const char* lie : {"", "{}", "[1]", "{\"model_type\": \"gpt2\"}", "{\"model_type\": 3}"}) {
    model->metadata["config.json"] = lie;
    EXPECT_THROW(hf::export_model(*model, out()), Error) << lie;
  }
  EXPECT_EQ(count(), 0u);
}

TEST_F(Export, ThatFailsHalfwayLeavesNothing) {
  const auto model = models::make_model("qwen2", kTiny);
  const int32_t last = model->find_state("model.norm.weight");
  model->set_initial(last, Tensor::of<float>({32}, std::vector<float>(32, 1e6f)));
  refused(*model, {"model.norm.weight", "beyond the range of f16"}, {.dtype = DType::f16});
  hf::export_model(*model, out());
  const json config = read_json(out() / "config.json");
  refused(*model, {"model.norm.weight", "beyond the range of f16"}, {.dtype = DType::f16, .replace = true});
  EXPECT_EQ(read_json(out() / "config.json"), config);
}

TEST_F(Export, ReplacesNothingButExports) {
  const auto model = models::make_model("qwen2", kTiny);
  fs::create_directory(out());
  hf::export_model(*model, out(), {.shard_bytes = 3000});
  refused(*model, {"is there already"});
  hf::export_model(*model, out() / "", {.replace = true});
  EXPECT_EQ(count(), 1u);
  EXPECT_TRUE(fs::exists(out() / "model.safetensors"));
  EXPECT_FALSE(fs::exists(out() / "model.safetensors.index.json"));
  std::ofstream(out() / "thesis.tex") << "years";
  refused(*model, {"would delete", "thesis.tex"}, {.replace = true});
  EXPECT_TRUE(fs::exists(out() / "thesis.tex"));
  EXPECT_TRUE(fs::exists(out() / "config.json"));
}

TEST_F(Export, WritesThroughALinkToAFolder) {
  fs::create_directory(folder_ / "real");
  fs::create_directory_symlink(folder_ / "real", out());
  hf::export_model(*models::make_model("qwen2", kTiny), out());
  EXPECT_TRUE(fs::is_symlink(out()));
  EXPECT_TRUE(fs::exists(folder_ / "real" / "config.json"));
}

TEST_F(Export, ToPlacesThatCannotBeWrittenSaysSo) {
  const auto model = models::make_model("qwen2", kTiny);
  std::ofstream(folder_ / "file") << "text";
  expect_error([&] { hf::export_model(*model, folder_ / "file"); }, {"a file has that name"});
  expect_error([&] { hf::export_model(*model, folder_ / "no" / "such"); }, {"no/such", "No such file"});
  expect_error([&] { hf::export_model(*model, "/"); }, {"has no name"});
}

}  // namespace
}  // namespace genesis
