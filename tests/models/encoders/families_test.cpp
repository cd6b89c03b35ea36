// Compares the families of encoders with transformers: results within 20 times the rounding of its own f32, losses of ten steps of
// AdamW, folders in and out, adapters of PEFT. make_encoders.py has made the checkpoints and the numbers.
#include <gtest/gtest.h>

#include <fstream>

#include "executor/state_dict.h"
#include "models/formats/hugging_face/adapter.h"
#include "models/formats/hugging_face/config.h"
#include "models/formats/hugging_face/export.h"
#include "models/zoo.h"
#include "passes/lora/lora.h"
#include "passes/precision/quantize.h"
#include "passes/training/train_step.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/models/encoders/encoders.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
using namespace testing;
using nlohmann::json;

constexpr double kTimes = 20;  // a result may be off by this many times the rounding of transformers

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, about] : expected_encoders()["models"].items()) all.push_back(name);
  return all;
}

class Encoders : public ::testing::TestWithParam<std::string> {
 protected:
  const json& about() const { return expected_encoders()["models"][GetParam()]; }
  bool has_head() const { return about().contains("logits"); }
  bool is_decoder() const { return GetParam() == "qwen3_embedding"; }
  std::string entry() const { return has_head() ? "forward" : "hidden"; }
  std::string output() const { return has_head() ? "logits" : "hidden"; }
};

INSTANTIATE_TEST_SUITE_P(Models, Encoders, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST_P(Encoders, ComputeWhatTransformersComputes) {
  if (is_decoder()) GTEST_SKIP() << "a decoder has its own tests";
  const auto model = import_encoder(GetParam());
  Session session(model, {.threads = 2});
  const double most = kTimes * about()[output() + "_noise"].get<double>();
  const NamedTensors batch = encoder_batch(*model, about(), entry());
  const NamedTensors results = session.run(entry(), batch);
  EXPECT_LE(greatest_distance(real_results(results.at(output()), batch.at("lengths")),
                              numbers_in(about()[output()])),
            most);
  if (about().contains("pooled")) {
    EXPECT_LE(greatest_distance(results.at("pooled").to_doubles(), numbers_in(about()["pooled"])), most);
  }
}

TEST_P(Encoders, GiveARowWhatItsTextGivesAlone) {
  if (is_decoder()) GTEST_SKIP() << "a decoder has its own tests";
  const auto model = import_encoder(GetParam());
  Session session(model, {.threads = 2});
  const double most = kTimes * about()[output() + "_noise"].get<double>();
  for (size_t row = 0; row < 3; ++row) {
    const NamedTensors alone = encoder_batch(*model, about(), entry(), row, row + 1);
    EXPECT_LE(greatest_distance(session.run(entry(), alone).at(output()).to_doubles(),
                                numbers_in(about()[output()][row])),
              most);
  }
}

Tensor targets_of(const Graph& loss, const json& targets) {
  const TensorType type = loss.type(loss.inputs().back());
  std::vector<int64_t> sizes = {static_cast<int64_t>(targets.size())};
  if (type.shape.rank() == 2) sizes.push_back(static_cast<int64_t>(targets[0].size()));
  const std::vector<double> values = numbers_in(targets);
  if (type.dtype == DType::i64) return Tensor::of(sizes, std::vector<int64_t>(values.begin(), values.end()));
  return Tensor::of(sizes, std::vector<float>(values.begin(), values.end()));
}

TEST_P(Encoders, LearnAsInTransformers) {
  if (!has_head()) GTEST_SKIP() << "the base model has no loss";
  const auto model = import_encoder(GetParam());
  NamedTensors batch = encoder_batch(*model, about(), "loss");
  batch.emplace("targets", targets_of(model->entry("loss"), about()["targets"]));
  passes::add_train_step(*model, passes::parse_train_options("adamw,lr=1e-3,beta1=0.9,beta2=0.999,eps=1e-5,"
                                                             "weight_decay=0.01"));
  Session session(model, {.threads = 2});
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step)
    losses.push_back(session.run("train_step", batch).at("loss").item<double>());
  EXPECT_LE(greatest_distance(losses, numbers_in(about()["losses"])),
            kTimes * about()["losses_noise"].get<double>());
}

std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(folder).string()] = read_whole_file(entry.path().string());
  return files;
}

void expect_same_tensors(const fs::path& a, const fs::path& b) {
  const auto first = read_safetensors(a).tensors, second = read_safetensors(b).tensors;
  ASSERT_EQ(first.size(), second.size()) << a;
  for (const auto& [name, tensor] : first) {
    ASSERT_TRUE(second.contains(name)) << name;
    const Tensor& other = second.at(name);
    ASSERT_EQ(tensor.type().to_string(), other.type().to_string()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), other.data(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
}

// The folder that goes out is the one that came in, with the files of sentence-transformers.
TEST_P(Encoders, GoOutAsTheyCameIn) {
  const TemporaryFolder folder;
  save_model(*import_encoder(GetParam()), folder / "m.genesis");
  hf::export_model(*load_model(folder / "m.genesis"), folder / "out");
  hf::export_model(*load_model(folder / "m.genesis"), folder / "out", {.replace = true});
  const auto before = files_below(encoder_folder(GetParam())), after = files_below(folder / "out");
  for (const auto& [name, bytes] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    if (name == "config.json" && !is_decoder()) {
      EXPECT_EQ(parse_json_text(bytes), parse_json_text(after.at(name)));
    } else if (name.ends_with(".safetensors") && !is_decoder()) {
      expect_same_tensors(encoder_folder(GetParam()) / name, folder / "out" / name);
    } else if (name != "config.json" && !name.ends_with(".safetensors")) {
      EXPECT_EQ(bytes, after.at(name)) << name;
    }
  }
  EXPECT_EQ(before.size(), after.size());
}

struct Feature {
  const char *checkpoint, *setting, *other;
};
constexpr Feature kFeatures[] = {
    {"bert", "hidden_act", "relu"},
    {"bert", "layer_norm_eps", "0.1"},
    {"bert", "num_attention_heads", "4"},
    {"bert_mlm", "hidden_act", "gelu"},
    {"xlm_roberta", "pad_token_id", "3"},
    {"xlm_roberta", "layer_norm_eps", "0.1"},
    {"distilbert_mlm", "hidden_act", "silu"},
    {"modernbert", "local_attention", "2"},
    {"modernbert", "layer_types", "full_attention,full_attention,full_attention"},
    {"modernbert", "global_rope_theta", "50"},
    {"modernbert", "local_rope_theta", "500"},
    {"modernbert", "hidden_act", "relu"},
    {"modernbert_cross", "classifier_pooling", "cls"},
    {"modernbert_cross", "classifier_activation", "relu"}};

TEST(EncoderFeatures, EachChangesTheResults) {
  for (const auto& [checkpoint, setting, other] : kFeatures) {
    SCOPED_TRACE(std::string(checkpoint) + " " + setting);
    const json& about = expected_encoders()["models"][checkpoint];
    const char* output = about.contains("logits") ? "logits" : "hidden";
    const std::string entry = about.contains("logits") ? "forward" : "hidden";
    const auto results = [&](const models::Settings& changes) {
      const auto model = import_encoder(checkpoint, changes);
      const NamedTensors batch = encoder_batch(*model, about, entry);
      Session session(model, {.threads = 2});
      return real_results(session.run(entry, batch).at(output), batch.at("lengths"));
    };
    EXPECT_GT(greatest_distance(results({{setting, other}}), results({})), 1e-4);
  }
}

// Inputs and weights that a mistake could leave out.
TEST(EncoderFeatures, TypesOfTokensAndBiasesOfDistancesCount) {
  const json& about = expected_encoders()["models"]["bert"];
  const auto bert = import_encoder("bert");
  Session session(bert, {.threads = 2});
  NamedTensors batch = encoder_batch(*bert, about, "hidden");
  const auto with = session.run("hidden", batch).at("hidden").to_doubles();
  batch["token_types"] = Tensor::zeros(batch.at("token_types").type());
  EXPECT_GT(greatest_distance(session.run("hidden", batch).at("hidden").to_doubles(), with), 1e-3);
  const auto mpnet = import_encoder("mpnet");
  const NamedTensors tokens = encoder_batch(*mpnet, expected_encoders()["models"]["mpnet"], "hidden");
  Session distances(mpnet, {.threads = 2});
  const auto biased = distances.run("hidden", tokens).at("hidden").to_doubles();
  const std::string name = "encoder.relative_attention_bias.weight";
  distances.set_state(name, Tensor::zeros(distances.state(name).type()));
  EXPECT_GT(greatest_distance(distances.run("hidden", tokens).at("hidden").to_doubles(), biased), 1e-3);
}

TEST(EncoderFeatures, WhatWouldChangeTheResultsIsRefused) {
  const std::vector<std::tuple<const char*, const char*, json>> cases = {
      {"bert", "is_decoder", true},
      {"bert", "position_embedding_type", "relative_key"},
      {"bert", "tie_word_embeddings", false},
      {"bert", "hidden_act", "quick_gelu"},
      {"bert", "architectures", json::array({"BertForQuestionAnswering"})},
      {"bert", "problem_type", "ranking"},
      {"bert", "attention_temperature", 0.5},
      {"bert", "sentence_transformers", {{"activation_fn", "torch.nn.modules.activation.Softplus"}}},
      {"mpnet", "relative_attention_num_buckets", 16},
      {"xlm_roberta", "pad_token_id", nullptr},
      {"modernbert", "classifier_pooling", "max"},
      {"modernbert", "layer_types", json::array({"chunked_attention"})},
      {"modernbert", "rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}};
  for (const auto& [checkpoint, name, value] : cases) {
    SCOPED_TRACE(std::string(checkpoint) + " " + name);
    json config = read_json(encoder_folder(checkpoint) / "config.json");
    config[name] = value;
    const std::string part = name == std::string("sentence_transformers") ? "Softplus" : name;
    expect_error([&] { hf::read_config(config, "config.json"); }, {"config.json", part});
  }
}

// An adapter of PEFT gives the logits that it gives there, also merged into the weights.
TEST(EncoderLora, IsThatOfPeft) {
  const json& about = expected_encoders()["models"]["bert_cross"];
  const auto model = import_encoder("bert_cross");
  hf::load_adapter(*model, encoder_folder("bert_lora"));
  const NamedTensors batch = encoder_batch(*model, about, "forward");
  const std::vector<double> expected = numbers_in(expected_encoders()["lora_logits"]);
  const double most = kTimes * about["logits_noise"].get<double>();
  for (const std::shared_ptr<const Model>& one :
       {std::shared_ptr<const Model>(model), std::shared_ptr<const Model>(passes::merge_lora(*model))}) {
    Session session(one, {.threads = 2});
    EXPECT_LE(greatest_distance(session.run("forward", batch).at("logits").to_doubles(), expected), most);
  }
}

TEST(EncoderQuantized, IsCloseToItsWeights) {
  for (const char* family : {"bert", "mpnet", "modernbert"}) {
    const models::Settings sizes = {{"hidden_size", "64"},        {"intermediate_size", "128"},
                                    {"num_hidden_layers", "2"},   {"num_attention_heads", "2"},
                                    {"initializer_range", "0.1"}, {"head", "sequence_classification"}};
    NamedTensors batch = {{"tokens", Tensor::of<int64_t>({{5, 9, 200, 7}, {3, 1, 0, 0}})},
                          {"lengths", Tensor::of<int64_t>({4, 2})}};
    const auto logits = [&](std::optional<WeightFormat> format) {
      const std::shared_ptr<Model> model = models::make_model(family, sizes, 3);
      if (format) passes::quantize(*model, {.format = *format});
      if (takes_input(*model, "forward", "token_types"))
        batch.insert_or_assign("token_types", Tensor::zeros({DType::i64, {2, 4}}));
      Session session(model, {.threads = 2});
      return session.run("forward", batch).at("logits").to_doubles();
    };
    const auto exact = logits({}), q8 = logits(WeightFormat::kQ8), q4 = logits(WeightFormat::kQ4);
    batch.erase("token_types");
    EXPECT_GT(greatest_distance(q8, exact), 0) << family;
    EXPECT_LT(greatest_distance(q8, exact), 0.1) << family;
    EXPECT_LT(greatest_distance(q4, exact), 0.4) << family;
  }
}

// Copies a folder and changes its config.json and the names of its tensors.
void change(const fs::path& from, const fs::path& to, const std::function<void(json& config)>& config_change,
            const std::function<std::vector<std::string>(const std::string& name)>& names_of) {
  fs::copy(from, to, fs::copy_options::recursive);
  json config = read_json(to / "config.json");
  config_change(config);
  std::ofstream(to / "config.json") << config.dump();
  SafeTensors changed{.tensors = {}, .metadata = {{"format", "pt"}}};
  const SafeTensors file = read_safetensors(from / "model.safetensors");
  for (const auto& [name, tensor] : file.tensors)
    for (const std::string& other : names_of(name)) changed.tensors.emplace(other, tensor);
  write_safetensors(to / "model.safetensors", changed);
}

// Checkpoints of older versions, and folders whose config.json names a class with a head that the weights lack.
TEST(EncoderFolders, OfOtherFormsOpen) {
  const TemporaryFolder folder;
  change(
      encoder_folder("bert_mlm"), folder / "old", [](json&) {},
      [](const std::string& name) -> std::vector<std::string> {
        const std::string norm = ".LayerNorm.weight";
        if (name.ends_with(norm)) return {name.substr(0, name.size() - norm.size()) + ".LayerNorm.gamma"};
        if (name == "bert.embeddings.word_embeddings.weight") return {name, "cls.predictions.decoder.weight"};
        if (name == "cls.predictions.bias") return {name, "cls.predictions.decoder.bias"};
        return {name};
      });
  const auto old = hf::import_model(folder / "old");
  EXPECT_EQ(state_dict(*old).size(), state_dict(*import_encoder("bert_mlm")).size());
  change(
      encoder_folder("mpnet"), folder / "headless",
      [](json& config) { config["architectures"] = json::array({"MPNetForMaskedLM"}); },
      [](const std::string& name) { return std::vector<std::string>{name}; });
  const auto headless = hf::import_model(folder / "headless");
  EXPECT_EQ(headless->find_entry("forward"), nullptr);
  EXPECT_GE(headless->find_state("pooler.dense.weight"), 0);
  hf::export_model(*headless, folder / "out");
  EXPECT_EQ(read_json(folder / "out" / "config.json")["architectures"], json::array({"MPNetModel"}));
  // The base model of a checkpoint with a head.
  const auto base = import_encoder("bert_mlm", {{"head", "none"}});
  EXPECT_GE(base->find_state("encoder.layer.0.output.dense.weight"), 0);
  EXPECT_LT(base->find_state("pooler.dense.weight"), 0);
}

}  // namespace
}  // namespace genesis
