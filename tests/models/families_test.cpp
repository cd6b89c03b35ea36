// Tests families that are a table only: a folder comes in and goes out exactly, the logits are those of transformers where the
// family computes the same as one with golden numbers, and each feature of the family changes them. Also tests what all
// tables have in common: entries that no table knows are refused.
#include "models/families.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "executor/session.h"
#include "executor/state_dict.h"
#include "models/formats/gguf/config.h"
#include "models/formats/gguf/names.h"
#include "models/formats/hugging_face/config.h"
#include "models/formats/hugging_face/export.h"
#include "models/formats/hugging_face/import.h"
#include "models/zoo.h"
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
using testing::checkpoints;
using testing::expect_error;
using testing::read_json;

// The tokens of a text that is longer than all windows of these tests.
std::vector<int64_t> prompt_tokens() { return read_json(checkpoints() / "expected.json")["prompt"]; }

std::vector<double> logits_of(const std::shared_ptr<const Model>& model, const std::vector<int64_t>& tokens) {
  Session session(model, {.threads = 2});
  const Tensor row = Tensor::of<int64_t>({1, std::ssize(tokens)}, tokens);
  std::vector<double> all = session.run("forward", {{"tokens", row}}).at("logits").to_doubles();
  return {all.end() - 61, all.end()};
}

// A folder with the weights of a checkpoint of transformers' Llama and the config.json of another family.
class FamilyOfLlama : public ::testing::Test {
 protected:
  static constexpr const char* kLlama = "llama_bf16";

  void SetUp() override {
    fs::create_directories(folder_ / "in");
    fs::copy(checkpoints() / kLlama / "model.safetensors", folder_ / "in");
  }

  // Writes the Llama's config.json under another model_type, with these changes.
  fs::path folder(const std::string& model_type, const std::string& class_name, const json& changes) {
    json config = read_json(checkpoints() / kLlama / "config.json");
    config["model_type"] = model_type;
    config["architectures"] = {class_name};
    for (const auto& [name, value] : changes.items()) config[name] = value;
    std::ofstream(folder_ / "in/config.json") << config.dump(2);
    return folder_ / "in";
  }

  static std::vector<double> logits(const fs::path& folder) {
    return logits_of(hf::import_model(folder, {{"dtype", "f32"}}), prompt_tokens());
  }

  // The logits of the Llama itself, with other settings.
  static std::vector<double> llama(const models::Settings& changes) {
    models::Settings settings = changes;
    settings["dtype"] = "f32";
    return logits_of(hf::import_model(checkpoints() / kLlama, settings), prompt_tokens());
  }

  static void expect_transformers(const std::vector<double>& logits) {
    const std::vector<double> expected =
        read_json(checkpoints() / "expected.json")["models"][kLlama]["logits"];
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(logits[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << "token " << i;
  }

  // Exports what was imported, and expects the same files.
  void expect_goes_out_as_it_came_in(const fs::path& in) {
    const fs::path out = folder_ / "out";
    fs::remove_all(out);
    hf::export_model(*hf::import_model(in), out);
    EXPECT_EQ(read_json(out / "config.json"), read_json(in / "config.json"));
    const auto before = read_safetensors(in / "model.safetensors").tensors,
               after = read_safetensors(out / "model.safetensors").tensors;
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, tensor] : before) {
      ASSERT_TRUE(after.contains(name)) << name;
      ASSERT_EQ(tensor.type(), after.at(name).type()) << name;
      EXPECT_EQ(std::memcmp(tensor.data(), after.at(name).data(), static_cast<size_t>(tensor.bytes())), 0)
          << name;
    }
  }

  const testing::TemporaryFolder folder_;
};

class Mistral : public FamilyOfLlama {
 protected:
  fs::path with(const json& changes) { return folder("mistral", "MistralForCausalLM", changes); }
};

TEST_F(Mistral, WithoutAWindowIsALlama) {
  const fs::path in = with({{"sliding_window", nullptr}});
  expect_transformers(logits(in));
  expect_goes_out_as_it_came_in(in);
}

TEST_F(Mistral, WithAWindowSeesItsTokensOnly) {
  const fs::path in = with({{"sliding_window", 3}});
  EXPECT_EQ(logits(in), llama({{"sliding_window", "3"}}));
  EXPECT_NE(logits(in), llama({}));
  expect_goes_out_as_it_came_in(in);
  EXPECT_EQ(hf::read_config({{"model_type", "mistral"}}, "config.json").settings.at("sliding_window"), 4096);
}

TEST_F(Mistral, WindowsThatCannotBe) {
  expect_error([&] { hf::import_model(with({{"sliding_window", "wide"}})); }, {"sliding_window is \"wide\""});
  expect_error(
      [&] {
        hf::import_model(with({{"layer_types", {"full_attention", "sliding_attention"}}}));
      },
      {"layer_types is", "not known"});
  models::Settings mixed = {{"sliding_window", "3"}, {"num_hidden_layers", "2"}};
  mixed["layer_types"] = "full_attention,sliding_attention";
  expect_error([&] { hf::export_model(*models::make_model("mistral", mixed), folder_ / "mixed"); },
               {"cannot say", "layer_types"});
}

class SmolLm3 : public FamilyOfLlama {
 protected:
  fs::path with(const json& changes) { return folder("smollm3", "SmolLM3ForCausalLM", changes); }
};

TEST_F(SmolLm3, WhoseLayersAllRotateIsALlama) {
  for (const json& changes : {json{{"no_rope_layers", {1, 1}}}, json{{"no_rope_layer_interval", 3}}}) {
    const fs::path in = with(changes);
    expect_transformers(logits(in));
    expect_goes_out_as_it_came_in(in);
  }
}

TEST_F(SmolLm3, LayersWithoutRotationChangeTheLogits) {
  const std::vector<double> all = logits(with({{"no_rope_layers", {1, 1}}})),
                            first = logits(with({{"no_rope_layers", {1, 0}}})),
                            second = logits(with({{"no_rope_layers", {0, 1}}}));
  EXPECT_NE(first, all);
  EXPECT_NE(second, all);
  EXPECT_NE(first, second);
  const fs::path by_interval = with({{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 2}});
  EXPECT_EQ(logits(by_interval), first);
  expect_goes_out_as_it_came_in(by_interval);
}

// Attention without positions does not see the order of earlier tokens: in a model of one layer, the last token's logits are those
// of any order, but for rounding.
TEST_F(SmolLm3, ALayerWithoutRotationDoesNotSeeOrder) {
  const auto difference = [](const char* flags) {
    const std::shared_ptr<const Model> model = models::make_model("smollm3",
                                                                  {{"num_hidden_layers", "1"},
                                                                   {"vocab_size", "61"},
                                                                   {"initializer_range", "0.2"},
                                                                   {"no_rope_layers", flags}},
                                                                  3);
    const std::vector<double> one = logits_of(model, {5, 1, 36, 7, 9}),
                              other = logits_of(model, {36, 7, 5, 1, 9});
    double greatest = 0;
    for (size_t i = 0; i < one.size(); ++i) greatest = std::max(greatest, std::abs(one[i] - other[i]));
    return greatest;
  };
  EXPECT_LT(difference("0"), 1e-4);
  EXPECT_GT(difference("1"), 1e-2);
}

TEST_F(SmolLm3, ReadsATextInPartsAsAtOnce) {
  const auto model = std::shared_ptr<const Model>(hf::import_model(
      with({{"no_rope_layers", {1, 0}}}),
      {{"dtype", "f32"}, {"sliding_window", "3"}, {"layer_types", "full_attention,sliding_attention"}}));
  const std::vector<int64_t> tokens = prompt_tokens();
  const std::vector<double> at_once = logits_of(model, tokens);
  Session session(model, {.threads = 2});
  Tensor logits;
  for (int64_t at = 0; at < std::ssize(tokens); ++at)
    logits = session
                 .run("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {tokens[static_cast<size_t>(at)]})},
                                 {"position", Tensor::of<int64_t>({1}, {at})}})
                 .at("logits");
  const std::vector<double> in_parts = logits.to_doubles();
  ASSERT_EQ(in_parts.size(), at_once.size());
  for (size_t i = 0; i < at_once.size(); ++i)
    EXPECT_NEAR(in_parts[i], at_once[i], 1e-5 * (1 + std::abs(at_once[i])));
}

TEST_F(SmolLm3, LayersWithoutRotationSlideByDefault) {
  const json settings = hf::read_config({{"model_type", "smollm3"},
                                         {"num_hidden_layers", 4},
                                         {"use_sliding_window", true},
                                         {"sliding_window", 8}},
                                        "config.json")
                            .settings;
  EXPECT_EQ(settings.at("layer_types"),
            (json{"full_attention", "full_attention", "full_attention", "sliding_attention"}));
}

TEST_F(SmolLm3, LayersThatCannotBe) {
  for (const json& flags : {json{1}, json{1, 2}, json{1, "yes"}, json(4)})
    expect_error(
        [&] {
          hf::import_model(with({{"no_rope_layers", flags}}));
        },
        {"no_rope_layers is", "0 or 1 for each layer"});
  expect_error(
      [] {
        models::make_model("smollm3", {{"no_rope_layers", "1,0"}});
      },
      {"smollm3: no_rope_layers has 2 entries for 4"});
  expect_error(
      [] {
        models::make_model("smollm3", {{"no_rope_layer_interval", "0"}});
      },
      {"smollm3: no_rope_layer_interval is 0"});
  expect_error(
      [] {
        models::make_model("llama", {{"no_rope_layers", "1,0"}});
      },
      {"no setting 'no_rope_layers'"});
}

TEST(Families, MessagesNameTheFamily) {
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral", "smollm3"})
    expect_error(
        [&] {
          models::make_model(name, {{"num_attention_heads", "6"}});
        },
        {std::string(name) + ": hidden_size 256", "num_attention_heads 6"});
}

TEST(Families, ListsForMessagesAreSorted) {
  EXPECT_TRUE(models::hugging_face_families("or").starts_with(
      "bamba, bert, cohere, cohere2, deepseek_v2, deepseek_v3"));
  EXPECT_NE(models::hugging_face_families("and").find(" and "), std::string::npos);
  EXPECT_TRUE(models::gguf_families("or").starts_with("cohere2, command-r, deepseek2, ernie4_5, exaone4"));
  EXPECT_EQ(models::gguf_families("or").find("olmo2, olmo2"), std::string::npos);  // two families share it
}

TEST(Families, AreFoundByTheirNames) {
  EXPECT_EQ(models::find_family("qwen3")->name, "qwen3");
  EXPECT_EQ(models::find_family("Qwen3"), nullptr);
  EXPECT_EQ(models::family_of_config({{"model_type", "smollm3"}})->name, "smollm3");
  EXPECT_EQ(models::family_of_config({{"architectures", {"MistralForCausalLM"}}})->name, "mistral");
  EXPECT_EQ(models::family_of_config({{"model_type", "qwen2_vl"}, {"architectures", {"Qwen2ForCausalLM"}}}),
            nullptr);
  EXPECT_EQ(models::family_of_config({{"model_type", 3}}), nullptr);
  EXPECT_EQ(models::family_of_gguf("llama")->name, "llama");
  EXPECT_EQ(models::family_of_gguf("mistral"), nullptr);
  EXPECT_EQ(models::family_of_gguf("olmo2")->name, "olmo2");
  const auto has = [](const std::string& number) { return number == "attention.sliding_window"; };
  EXPECT_EQ(models::family_of_gguf("olmo2", has)->name, "olmo3");
  EXPECT_EQ(models::family_of_gguf("llama", has)->name, "llama");
}

// Every family of transformers: an entry that its table does not know is refused, and one without effect is not.
TEST(Families, RefuseEntriesThatNoTableKnows) {
  for (const models::Family& family : models::families()) {
    if (!family.hugging_face) continue;
    SCOPED_TRACE(family.name);
    json config = {{"model_type", family.hugging_face->model_type}};
    for (const char* name :
         {"bos_token_id", "_name_or_path", "unsloth_version", "classifier_dropout", "transformers_version"})
      config[name] = 7;
    for (const json& neutral : {json(), json(false), json(0), json(""), json::object()})
      config["scale_of_" + neutral.dump()] = neutral;
    hf::read_config(config, "config.json");
    const bool reads_both_ways = family.network.settings.contains("head");  // an encoder
    config["is_causal"] = !reads_both_ways;
    hf::read_config(config, "config.json");
    config["is_causal"] = reads_both_ways;
    expect_error([&] { hf::read_config(config, "config.json"); },
                 {reads_both_ways ? "is_causal: true" : "is_causal: false"});
    config["attention_temperature"] = 0.5;
    config["quantization"] = {{"bits", 4}};
    expect_error([&] { hf::read_config(config, "config.json"); },
                 {"attention_temperature is 0.5, which is not known", "quantization is {\"bits\":4}"});
  }
}

// A GGUF file of a decoder of one layer, with metadata and the embedding only.
Gguf gguf_of(const std::string& architecture) {
  Gguf file;
  file.metadata["general.architecture"] = architecture;
  for (const auto& [name, value] : {std::pair("context_length", 64),
                                    {"embedding_length", 32},
                                    {"block_count", 1},
                                    {"feed_forward_length", 64},
                                    {"attention.head_count", 4},
                                    {"attention.head_count_kv", 2}})
    file.metadata[architecture + "." + name] = int64_t{value};
  file.metadata[architecture + ".attention.layer_norm_rms_epsilon"] = 1e-5;
  file.tensors["token_embd.weight"] = {find_gguf_type(0), {61, 32}, {}};
  return file;
}

// llama.cpp reorders the rows of Llama and of families that its converter derives from it.
TEST(Families, GgufRowsAreInPairsWhereLlamaCppReordersThem) {
  for (const auto& [name, is_in_pairs] : {std::pair("llama", true),
                                          {"smollm3", true},
                                          {"olmo", true},
                                          {"qwen2", false},
                                          {"gpt2", false},
                                          {"cohere", false}}) {
    const models::GgufForm& form = *models::find_family(name)->gguf;
    for (const char* projection : {"q_proj", "k_proj"})
      EXPECT_EQ(models::gguf::has_rows_in_pairs(fmt::format("model.layers.0.self_attn.{}.weight", projection),
                                                form),
                is_in_pairs)
          << name;
    EXPECT_FALSE(models::gguf::has_rows_in_pairs("model.layers.0.self_attn.v_proj.weight", form)) << name;
  }
}

TEST(Families, GgufMetadataThatNoTableKnowsAreRefused) {
  Gguf file = gguf_of("smollm3");
  file.metadata["smollm3.expert_count"] = int64_t{0};
  const models::FamilySettings read = models::gguf::read_config(file);
  EXPECT_EQ(read.family->name, "smollm3");
  EXPECT_EQ(read.settings.at("head_dim"), 8);
  file.metadata["smollm3.attention.scale"] = 0.5;
  expect_error([&] { models::gguf::read_config(file); },
               {"smollm3.attention.scale is 0.5, which is not known"});
  EXPECT_THROW(models::gguf::read_config(gguf_of("mamba")), Error);
}

}  // namespace
}  // namespace genesis
