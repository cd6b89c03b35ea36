// Tests text::Embedder and text::CrossEncoder against what sentence-transformers computes (make_encoders.py).
#include "models/text/embedder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "models/formats/hugging_face/sentence_modules.h"
#include "models/text/cross_encoder.h"
#include "models/zoo.h"
#include "tests/models/encoders/encoders.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
using namespace testing;
using nlohmann::json;

constexpr double kTimes = 20;

std::vector<std::string> texts() { return expected_encoders()["texts"]; }

text::Embedder embedder(const std::string& name) {
  return text::Embedder(import_encoder(name), name, {.threads = 2});
}

TEST(Embedder, MakesTheVectorsOfSentenceTransformers) {
  for (const char* name : {"bert", "bert_dense", "xlm_roberta", "mpnet", "qwen3_embedding"}) {
    text::Embedder model = embedder(name);
    for (const auto& [prompt, about] : expected_encoders()["models"][name]["vectors"].items()) {
      SCOPED_TRACE(std::string(name) + " '" + prompt + "'");
      text::EmbedOptions options{.prompt_name = prompt, .batch = 3};
      if (prompt.empty()) options.prompt = "";
      const Tensor vectors = model.encode(texts(), options);
      EXPECT_LE(greatest_distance(vectors.to_doubles(), numbers_in(about["vectors"])),
                kTimes * about["noise"].get<double>());
      EXPECT_EQ(vectors.size(1), model.features());
    }
  }
}

// Tokens are compared for themselves, too: vectors can agree by chance.
TEST(Embedder, ReadsTheTokensOfTransformers) {
  for (const char* name : {"bert", "bert_dense", "xlm_roberta", "mpnet", "qwen3_embedding"}) {
    const auto model = import_encoder(name);
    const text::EncoderTexts encoder(*model, name);
    const json& ids = expected_encoders()["models"][name]["vectors"][""]["ids"];
    for (size_t i = 0; i < texts().size(); ++i)
      EXPECT_EQ(encoder.encode(texts()[i]).ids, ids[i].get<std::vector<int64_t>>()) << name << " " << i;
  }
}

TEST(Embedder, SaysWhatItTruncates) {
  text::Embedder model = embedder("bert");
  EXPECT_EQ(model.longest_text(), 16);
  std::vector<size_t> truncated;
  text::EmbedOptions options;
  options.on_truncated = [&](size_t text, int64_t tokens, int64_t read) {
    truncated.push_back(text);
    EXPECT_EQ(read, 16);
    EXPECT_GT(tokens, 30);
  };
  model.encode(texts(), options);
  EXPECT_EQ(truncated, std::vector<size_t>{3});
}

TEST(Embedder, KeepsItsSettingsInTheFile) {
  const TemporaryFolder folder;
  save_model(*import_encoder("bert_dense"), folder / "m.genesis");
  text::Embedder saved = text::Embedder::open(folder / "m.genesis", {.threads = 2}),
                 made = embedder("bert_dense");
  EXPECT_EQ(saved.encode(texts()).to_doubles(), made.encode(texts()).to_doubles());
  EXPECT_EQ(saved.prompts(), (std::map<std::string, std::string>{{"query", "find: "}}));
  const json& named = expected_encoders()["models"]["bert_dense"]["vectors"]["query"];
  EXPECT_LE(greatest_distance(saved.encode(texts()).to_doubles(), numbers_in(named["vectors"])),
            kTimes * named["noise"].get<double>())
      << "the default prompt";
}

TEST(Embedder, ShortensAndCompares) {
  text::Embedder model = embedder("bert_dense");
  const Tensor whole = model.encode(texts()), few = model.encode(texts(), {.dimensions = 3}),
               unit = model.encode(texts(), {.normalize = true, .dimensions = 3});
  ASSERT_EQ(few.size(1), 3);
  EXPECT_EQ(few.as<float>()[4], whole.as<float>()[9]);
  const Tensor similar = model.similarity(unit, few);
  ASSERT_EQ(similar.size(0), 5);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(similar.as<float>()[i * 6], 1, 1e-6);
  expect_error([&] { model.encode(texts(), {.dimensions = 9}); }, {"9 dimensions", "8"});
  expect_error([&] { model.encode(texts(), {.prompt_name = "qery"}); },
               {"bert_dense", "'qery'", "did you mean 'query'"});
  expect_error([&] { model.similarity(whole, few); }, {"same number of features"});
}

TEST(Embedder, OfAPlainEncoderIsTheMean) {
  const auto model = import_encoder("modernbert");
  text::Embedder embedder(model, "modernbert", {.threads = 2});
  const text::EncoderTexts encoder(*model, "modernbert");
  const std::vector<int64_t> ids = encoder.encode("cats").ids;
  const NamedTensors inputs = {{"tokens", Tensor::of({1, std::ssize(ids)}, ids)},
                               {"lengths", Tensor::of<int64_t>({std::ssize(ids)})}};
  const auto hidden = embedder.session().run("hidden", inputs).at("hidden").to_doubles();
  std::vector<double> mean(16);
  for (size_t i = 0; i < hidden.size(); ++i) mean[i % 16] += hidden[i] / static_cast<double>(ids.size());
  EXPECT_LE(greatest_distance(embedder.encode({"cats"}).to_doubles(), mean), 1e-5);
}

TEST(Embedder, OfOtherModelsIsRefused) {
  expect_error([&] { text::Embedder(import_encoder("bert_cross"), "cross.genesis"); },
               {"cross.genesis", "embed", "--pooling"});
  expect_error([&] { text::Embedder(models::make_model("qwen2", {}), "qwen.genesis"); }, {"qwen.genesis"});
  expect_error([&] { models::add_vectors(*models::make_model("mlp", {}), {}); }, {"logits of tokens"});
  expect_error([&] { models::add_vectors(*models::make_model("bert", {}), {.pooling = {"min"}}); },
               {"'min'", "weightedmean"});
}

TEST(CrossEncoder, GivesTheScoresOfSentenceTransformers) {
  const json& pair_texts = expected_encoders()["pair_texts"];
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const json& pair : pair_texts) pairs.emplace_back(pair[0], pair[1]);
  for (const char* name : {"bert_cross", "xlm_roberta_cross", "modernbert_cross"}) {
    SCOPED_TRACE(name);
    const json& about = expected_encoders()["models"][name]["pairs"];
    const auto model = import_encoder(name);
    text::CrossEncoder cross(model, name, {.threads = 2});
    size_t truncated = 0;
    text::PairOptions options{.batch = 2, .on_truncated = [&](size_t, int64_t, int64_t) { ++truncated; }};
    EXPECT_LE(greatest_distance(cross.scores(pairs, options).to_doubles(), numbers_in(about["scores"])),
              kTimes * about["noise"].get<double>());
    EXPECT_GE(truncated, 1u);
    const text::EncoderTexts encoder(*model, name);
    for (size_t i = 0; i < pairs.size(); ++i) {
      const text::EncodedTexts encoded = encoder.encode(pairs[i].first, pairs[i].second);
      EXPECT_EQ(encoded.ids, about["ids"][i].get<std::vector<int64_t>>());
      EXPECT_EQ(encoded.types, about["types"][i].get<std::vector<int64_t>>());
    }
  }
}

TEST(CrossEncoder, RanksDocuments) {
  text::CrossEncoder cross(import_encoder("bert_cross"), "bert_cross", {.threads = 2});
  const std::vector<text::Ranked> ranked = cross.rank("what is a cat", texts());
  ASSERT_EQ(ranked.size(), texts().size());
  for (size_t i = 1; i < ranked.size(); ++i) EXPECT_GE(ranked[i - 1].score, ranked[i].score);
  expect_error([&] { text::CrossEncoder(import_encoder("bert"), "bert.genesis"); },
               {"bert.genesis", "no classifier of texts"});
}

// Modules and settings that are not understood are refused by their names.
TEST(SentenceModules, RefuseWhatIsNotUnderstood) {
  const TemporaryFolder folder;
  const std::vector<std::tuple<const char*, const char*, json, const char*>> cases = {
      {"1_Pooling/config.json", "pooling_mode_attention", true, "pooling_mode_attention"},
      {"1_Pooling/config.json", "pooling_mode_mean_tokens", false, "no mode of pooling"},
      {"sentence_bert_config.json", "do_lower_case", true, "do_lower_case"},
      {"sentence_bert_config.json", "max_seq_length", "many", "max_seq_length"},
      {"config_sentence_transformers.json", "similarity_fn_name", "hamming", "similarity_fn_name"},
      {"config_sentence_transformers.json", "default_prompt_name", "other", "default_prompt_name"}};
  int number = 0;
  for (const auto& [file, name, value, part] : cases) {
    const fs::path copy = folder / std::to_string(number++);
    fs::copy(encoder_folder("bert"), copy, fs::copy_options::recursive);
    json contents = read_json(copy / file);
    contents[name] = value;
    std::ofstream(copy / file) << contents.dump();
    expect_error([&] { hf::import_model(copy); }, {copy.string(), part});
  }
  const fs::path copy = folder / "modules";
  fs::copy(encoder_folder("bert"), copy, fs::copy_options::recursive);
  json modules = read_json(copy / "modules.json");
  modules.push_back(
      {{"idx", 3}, {"name", "3"}, {"path", "3_LSTM"}, {"type", "sentence_transformers.models.LSTM"}});
  std::ofstream(copy / "modules.json") << modules.dump();
  expect_error([&] { hf::import_model(copy); }, {"LSTM"});
}

}  // namespace
}  // namespace genesis
