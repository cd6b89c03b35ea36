// Tests the models of the zoo: settings, entry points, and a file that is restored byte for byte.
#include "models/zoo.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "passes/pipelines.h"
#include "passes/training/train_step.h"
#include "schema/file/json_text.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis::models {
namespace {

using namespace testing;

bool is_encoder(const std::string& name) {
  static const std::set<std::string> kEncoders = {"bert",       "roberta", "xlm_roberta",
                                                  "distilbert", "mpnet",   "modernbert"};
  return kEncoders.contains(name);
}

Settings small(const std::string& name) {
  if (is_encoder(name))
    return {{"hidden_size", "16"},
            {"intermediate_size", "24"},
            {"num_hidden_layers", "1"},
            {"num_attention_heads", "4"},
            {"max_position_embeddings", "16"}};
  if (name == "mlp") return {{"in_features", "6"}, {"hidden_features", "8"}, {"num_classes", "3"}};
  if (name == "gpt2") return {{"n_embd", "16"}, {"n_layer", "1"}, {"n_head", "2"}, {"n_positions", "16"}};
  if (name == "mamba2")
    return {{"hidden_size", "16"},  {"num_hidden_layers", "1"}, {"mamba_n_heads", "2"},
            {"mamba_d_head", "16"}, {"mamba_d_state", "8"},     {"max_position_embeddings", "16"}};
  Settings settings = {{"hidden_size", "16"},        {"intermediate_size", "24"},
                       {"num_hidden_layers", "1"},   {"num_attention_heads", "4"},
                       {"num_key_value_heads", "2"}, {"max_position_embeddings", "16"}};
  if (name == "stablelm" || name.starts_with("qwen3_5") || name == "qwen3_next")
    settings["head_dim"] = "8";  // a quarter of a head is a pair that rotates
  return settings;
}

// Returns inputs of `forward`.
NamedTensors rows_of(const std::string& name, const Tensor& tokens) {
  NamedTensors inputs = {{"tokens", tokens}};
  if (is_encoder(name)) inputs.emplace("lengths", Tensor::full({tokens.size(0)}, 3, DType::i64));
  if (name == "bert") inputs.emplace("token_types", Tensor::zeros(tokens.type()));
  return inputs;
}

std::vector<std::string> symbols_of(const Graph& graph) {
  std::vector<std::string> symbols;
  for (ValueId input : graph.inputs())
    for (int i = 0; i < graph.type(input).shape.rank(); ++i)
      graph.type(input).shape[i].collect_symbols(symbols);
  return symbols;
}

class Zoo : public ::testing::TestWithParam<std::string> {};

TEST_P(Zoo, HasTheEntryPointsItPromises) {
  const auto model = make_model(GetParam(), small(GetParam()));
  std::set<std::string> entries;
  for (const auto& entry : model->entries()) entries.insert(entry->name());
  std::set<std::string> expected = {"forward", "loss"};
  if (is_encoder(GetParam())) {
    expected.insert("hidden");
    EXPECT_EQ(entries, expected);
    return;
  }
  if (GetParam() != "mlp") expected.insert({"loss_packed", "prefill", "prefill_row", "decode"});
  EXPECT_EQ(entries, expected);
  EXPECT_EQ(model->entry("loss").outputs()[0].name, "loss");
  EXPECT_EQ(model->metadata.at("architecture"), GetParam());
}

// "config" contains the settings, and building from it gives the same model.
TEST_P(Zoo, TheConfigRebuildsTheModel) {
  const TemporaryFolder folder;
  const auto model = make_model(GetParam(), small(GetParam()), 4);
  Settings again;
  const auto config = parse_json_text(model->metadata.at("config"));
  for (const auto& [key, value] : config.items())
    again[key] = value.is_string() ? value.get<std::string>() : value.dump();
  for (const auto& [key, value] : small(GetParam())) EXPECT_EQ(again.at(key), value);
  save_model(*model, folder / "a.genesis");
  save_model(*make_model(GetParam(), again, 4), folder / "b.genesis");
  save_model(*load_model(folder / "a.genesis"), folder / "c.genesis");
  EXPECT_EQ(read_bytes(folder / "a.genesis"), read_bytes(folder / "b.genesis"));
  EXPECT_EQ(read_bytes(folder / "a.genesis"), read_bytes(folder / "c.genesis"));
  save_model(*make_model(GetParam(), again, 5), folder / "d.genesis");
  EXPECT_NE(read_bytes(folder / "a.genesis"), read_bytes(folder / "d.genesis"));
}

TEST_P(Zoo, BuildsWithItsDefaults) {
  const auto model = make_model(GetParam(), {});
  const auto config = parse_json_text(model->metadata.at("config"));
  for (const ZooModel& row : list_models()) {
    if (row.name != GetParam()) continue;
    EXPECT_EQ(row.settings.size(), config.size());
    for (const auto& [key, value] : row.settings) EXPECT_EQ(config.at(key).dump(), value) << key;
  }
}

TEST_P(Zoo, ASavedModelGivesTheSameBits) {
  const TemporaryFolder folder;
  const std::shared_ptr<const Model> model = make_model(GetParam(), small(GetParam()), 4);
  save_model(*model, folder / "m.genesis");
  const NamedTensors inputs =
      GetParam() == "mlp"
          ? NamedTensors{{"x", Tensor::of<float>({2, 6}, {1, 2, 3, 4, 5, 6, -1, 0, 1, 0, 2, 1})}}
          : rows_of(GetParam(), Tensor::of<int64_t>({1, 3}, {65, 0, 255}));
  Session here(model), loaded(std::shared_ptr<const Model>(load_model(folder / "m.genesis")));
  EXPECT_EQ(here.run("forward", inputs).at("logits").to_doubles(),
            loaded.run("forward", inputs).at("logits").to_doubles());
}

// A batch without samples is valid.
TEST_P(Zoo, ABatchOfNothing) {
  Session session(std::shared_ptr<const Model>(make_model(GetParam(), small(GetParam()))));
  const bool text = GetParam() != "mlp";
  const NamedTensors inputs = text ? rows_of(GetParam(), Tensor::zeros({DType::i64, {0, 3}}))
                                   : NamedTensors{{"x", Tensor::zeros({DType::f32, {0, 6}})}};
  EXPECT_EQ(session.run("forward", inputs).at("logits").type().to_string(),
            text ? "f32[0,3,256]" : "f32[0,3]");
}

// Uses the short search that a session affords, also for odd sizes. Three decimals suffice: the smallest arena
// counts, and an order that packs without gaps may need more bytes than one with a small gap.
TEST_P(Zoo, EveryPlanIsAsSmallAsItsLowerBound) {
  struct Case {
    const char* training;
    int64_t batch, seq;
  };
  for (const auto& [training, batch, seq] :
       {Case{"adamw,clip=1.0", 3, 37}, Case{"sgd,momentum=0.9,accumulate=4", 8, 128}}) {
    const std::shared_ptr<Model> model = make_uninitialized_model(GetParam(), {});
    const passes::TrainOptions options = passes::parse_train_options(training);
    model->replace_entry(passes::run_passes(model->entry("loss"), passes::preparation_pipeline(), {}, {}));
    passes::add_train_step(*model, options);
    Session session(model);
    for (const auto& entry : std::as_const(*model).entries()) {
      Bindings sizes;
      for (const std::string& symbol : symbols_of(*entry)) sizes[symbol] = symbol == "batch" ? batch : seq;
      const Plan& plan = session.plan(entry->name(), sizes);
      EXPECT_GT(plan.lower_bound_bytes, 0);
      EXPECT_LT(static_cast<double>(plan.arena_bytes), 1.0005 * static_cast<double>(plan.lower_bound_bytes))
          << entry->name() << " " << training << " " << batch;
    }
  }
}

// Models of reduced precision start from the same numbers.
TEST_P(Zoo, ReducedPrecisionIsCloseToF32) {
  if (GetParam() == "mlp") GTEST_SKIP() << "mlp has no dtype setting";
  Settings settings = small(GetParam());
  const NamedTensors inputs = rows_of(GetParam(), Tensor::of<int64_t>({1, 3}, {65, 0, 255}));
  const auto logits = [&] {
    Session session(std::shared_ptr<const Model>(make_model(GetParam(), settings, 4)));
    return session.run("forward", inputs).at("logits").to_doubles();
  };
  const std::vector<double> exact = logits();
  settings["dtype"] = "bf16";
  const std::vector<double> rounded = logits();
  ASSERT_EQ(exact.size(), rounded.size());
  for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(rounded[i], exact[i], 0.02);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ZooModel& row : list_models())  // image_families_test.cpp tests the models of pictures
    if (std::ranges::none_of(row.settings, [](const auto& setting) { return setting.first == "image_size"; }))
      all.push_back(row.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(ZooNames, AreThoseOfPyTorch) {
  const auto has = [](const Model& model, const std::string& name, const std::string& type) {
    const int32_t index = model.find_state(name);
    ASSERT_GE(index, 0) << name;
    EXPECT_EQ(model.state(index).type.to_string(), type) << name;
  };
  const auto mlp = make_model("mlp", small("mlp")), gpt2 = make_model("gpt2", small("gpt2")),
             qwen2 = make_model("qwen2", small("qwen2")), qwen3 = make_model("qwen3", small("qwen3"));
  has(*mlp, "layers.0.weight", "f32[8,6]");
  has(*mlp, "layers.2.bias", "f32[8]");
  has(*mlp, "layers.4.weight", "f32[3,8]");
  has(*gpt2, "transformer.h.0.attn.c_attn.weight", "f32[48,16]");
  has(*gpt2, "transformer.wpe.weight", "f32[16,16]");
  has(*gpt2, "transformer.ln_f.bias", "f32[16]");
  has(*qwen2, "model.layers.0.self_attn.k_proj.bias", "f32[8]");
  has(*qwen2, "model.layers.0.mlp.down_proj.weight", "f32[16,24]");
  has(*qwen3, "model.layers.0.self_attn.q_norm.weight", "f32[4]");
  EXPECT_LT(qwen3->find_state("model.layers.0.self_attn.q_proj.bias"), 0);
  EXPECT_LT(qwen2->find_state("lm_head.weight"), 0) << "tied";
  Settings untied = small("qwen2");
  untied["tie_word_embeddings"] = "false";
  has(*make_model("qwen2", untied), "lm_head.weight", "f32[256,16]");
}

TEST(ZooSettings, MistakesListWhatIsThere) {
  expect_error([] { make_model("lenet", {}); }, {"'lenet'", "mlp, gpt2, qwen2, qwen3, llama"});
  expect_error([] { make_model("mlp", {{"width", "3"}}); }, {"'width'", "in_features", "dropout"});
  expect_error([] { make_model("mlp", {{"in_features", "3x"}}); }, {"in_features=3x", "an integer"});
  expect_error([] { make_model("mlp", {{"in_features", ""}}); }, {"in_features=", "an integer"});
  expect_error(
      [] {
        make_model("mlp", {{"in_features", "99999999999999999999"}});
      },
      {"in_features", "an integer"});
  expect_error([] { make_model("gpt2", {{"dropout", "half"}}); }, {"dropout=half", "a number"});
  expect_error(
      [] {
        make_model("qwen2", {{"tie_word_embeddings", "yes"}});
      },
      {"tie_word_embeddings=yes", "true or false"});
  expect_error([] { make_model("qwen2", {{"dtype", "i64"}}); }, {"dtype=i64", "bf16"});
  expect_error([] { make_model("mlp", {{"activation", "swish"}}); }, {"'swish'", "relu, gelu, silu, tanh"});
}

TEST(ZooSettings, NumbersThatDoNotGoTogetherAreRefused) {
  const auto refuses = [](const char* model, const char* key, const char* value, const char* part) {
    expect_error([&] { make_model(model, {{key, value}}); }, {part});
  };
  refuses("mlp", "in_features", "0", "in_features");
  refuses("mlp", "num_hidden_layers", "-1", "num_hidden_layers");
  for (const char* p : {"-0.5", "1.5", "nan"}) refuses("mlp", "dropout", p, "dropout");
  for (const char* p : {"-0.5", "1.5", "nan"}) refuses("gpt2", "dropout", p, "dropout");
  refuses("gpt2", "n_head", "3", "n_head 3");
  refuses("gpt2", "vocab_size", "-5", "vocab_size");
  refuses("gpt2", "initializer_range", "inf", "initializer_range");
  refuses("qwen2", "num_key_value_heads", "3", "num_key_value_heads 3");
  refuses("qwen2", "num_attention_heads", "6", "num_attention_heads 6");
  refuses("qwen2", "head_dim", "-2", "head_dim");
  refuses("qwen2", "head_dim", "5", "odd");
  refuses("qwen2", "rope_theta", "-1", "rope_theta");
  refuses("qwen2", "rms_norm_eps", "-1", "rms_norm_eps");
  refuses("gpt2", "layer_norm_epsilon", "-1", "layer_norm_epsilon");
}

// Sizes that no memory can hold are an error with a message.
TEST(ZooSettings, SizesBeyondMeasureAreRefused) {
  for (const char* size : {"4611686018427387904", "9223372036854775807", "1000000000000000"}) {
    EXPECT_THROW(make_model("mlp", {{"hidden_features", size}}), Error) << size;
    EXPECT_THROW(make_model("gpt2", {{"vocab_size", size}}), Error) << size;
    EXPECT_THROW(make_model("qwen2", {{"intermediate_size", size}}), Error) << size;
  }
}

}  // namespace
}  // namespace genesis::models
