// Tests models that take text and give text: the same tokens as a Generator's, settings of the makers, conversations that share a
// cache with texts, contexts that grow, and errors that name the file.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "models/chat/dialogue.h"
#include "models/generation/generator.h"
#include "models/text/prompts.h"
#include "models/text/text_model.h"
#include "models/tokenizer/model_files.h"
#include "models/zoo.h"
#include "schema/core/setting_error.h"
#include "schema/file/writer.h"
#include "schema/graph/caches.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis::text {
namespace {

using genesis::testing::error_of;
namespace fs = std::filesystem;

class TextModels : public ::testing::Test {
 protected:
  TextModels() {
    fs::create_directory(folder_ / "brought");
    fs::copy(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json", folder_ / "brought/tokenizer.json");
    write(
        "brought/tokenizer_config.json",
        R"({"chat_template": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // Saves a model with the files of the folder, and returns its path.
  std::string make(const std::string& cache = "0", const std::string& vocabulary = "909") const {
    auto model = models::make_model("qwen2", {{"vocab_size", vocabulary},
                                              {"hidden_size", "16"},
                                              {"intermediate_size", "32"},
                                              {"num_hidden_layers", "2"},
                                              {"num_attention_heads", "2"},
                                              {"num_key_value_heads", "1"},
                                              {"initializer_range", "0.3"},
                                              {"max_position_embeddings", "256"},
                                              {"cache_positions", cache}});
    if (vocabulary == "909") attach_tokenizer_files(*model, folder_ / "brought");
    const std::string path = (folder_ / "m.genesis").string();
    save_model(*model, path);
    return path;
  }

  const genesis::testing::TemporaryFolder folder_;
};

TEST_F(TextModels, GenerateWhatAGeneratorDoes) {
  TextModel model = TextModel::open(make());
  const std::vector<int64_t> prompt = model.encode("In the beginning");
  std::string pieces;
  const GenerateResult result =
      model.generate("In the beginning", {.max_tokens = 8, .seed = 3}, [&](const Piece& piece) {
        pieces += piece.text;
        return true;
      });
  EXPECT_EQ(pieces, result.text);
  Session session = open_for_generation(load_model(model.file()));
  const GenerateOptions options{.max_tokens = 8, .seed = 3, .stop_tokens = model.end_tokens()};
  EXPECT_EQ(result.tokens, generate(session, prompt, options).tokens);
  EXPECT_EQ(model.generate("In the beginning", {.max_tokens = 8, .seed = 3}).tokens, result.tokens);
}

TEST_F(TextModels, ApplySettingsOfTheMakers) {
  write("brought/generation_config.json",
        R"({"do_sample": true, "temperature": 0.5, "top_k": 7, "eos_token_id": 5})");
  const TextModel model = TextModel::open(make());
  const GenerateOptions made = model.options({}), chosen = model.options({.top_k = 3, .stop_tokens = {9}});
  EXPECT_EQ(made.temperature, 0.5);
  EXPECT_EQ(made.top_k, 7);
  EXPECT_EQ(made.stop_tokens, (std::vector<int64_t>{5}));
  EXPECT_EQ(chosen.temperature, 0.5);
  EXPECT_EQ(chosen.top_k, 3);
  EXPECT_EQ(chosen.stop_tokens, (std::vector<int64_t>{5, 9}));
}

TEST_F(TextModels, SamplesAreThoseOfTheNextSeeds) {
  TextModel model = TextModel::open(make());
  const std::vector<int64_t> prompt = model.encode("In the beginning");
  const auto samples = model.generate_samples(prompt, 3, {.max_tokens = 8, .seed = 3});
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_GT(samples[0].prefilled, 1);
  EXPECT_EQ(samples[1].prefilled + samples[2].prefilled, 2);
  TextModel other = TextModel::open(make());
  for (uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(samples[i].tokens, other.generate_from(prompt, {.max_tokens = 8, .seed = 3 + i}).tokens) << i;
}

TEST_F(TextModels, EndsAndBiasesOfTheMakersMayBeLeftOut) {
  write(
      "brought/generation_config.json",
      R"({"do_sample": true, "eos_token_id": 5, "suppress_tokens": [7, 5000], "bad_words_ids": [[8, 9], [5]],)"
      R"( "sequence_bias": [[[3], -1.5]], "no_repeat_ngram_size": 4, "min_new_tokens": 2})");
  const TextModel model = TextModel::open(make());
  const GenerateOptions made = model.options({}), chosen = model.options({.no_repeat_ngram_size = 0,
                                                                          .logit_bias = {{{1}, 2}},
                                                                          .stop_tokens = {9},
                                                                          .ignore_eos = true});
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  // Token 5 is an end token, and the model has no token 5000.
  const std::vector<TokenBias> biases = {{{3}, -1.5}, {{8, 9}, kNever}, {{7}, kNever}};
  EXPECT_EQ(made.logit_bias, biases);
  EXPECT_EQ(made.no_repeat_ngram_size, 4);
  EXPECT_EQ(made.min_tokens, 2);
  EXPECT_EQ(chosen.no_repeat_ngram_size, 0);
  EXPECT_EQ(chosen.logit_bias.size(), 4u);
  EXPECT_EQ(chosen.stop_tokens, (std::vector<int64_t>{9}));
}

TEST_F(TextModels, DraftsChangeNoText) {
  const std::string path = make(), bytes = (folder_ / "bytes.genesis").string();
  TextModel plain = TextModel::open(path);
  const GenerateSettings settings{.max_tokens = 40, .temperature = 0.8};
  const auto expected = plain.generate("In the beginning", settings);
  for (const std::string& draft : {std::string("ngram"), path}) {
    TextModel drafted = TextModel::open(path, {}, {.draft = draft});
    const auto got = drafted.generate("In the beginning", settings);
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.text, expected.text);
    if (draft == path) {
      EXPECT_EQ(got.accepted, got.drafted);  // drawn by the same numbers
    }
    Chat a = drafted.chat({.generate = {.max_tokens = 8}}), b = plain.chat({.generate = {.max_tokens = 8}});
    EXPECT_EQ(a.answer("In the").text, b.answer("In the").text);
  }
  fs::rename(make("0", "256"), bytes);
  make();
  EXPECT_NE(error_of([&] { TextModel::open(path, {}, {.draft = bytes}); }).find("cannot draft"),
            std::string::npos);
}

// Conversations and texts of one model do not disturb each other, though they share its cache.
TEST_F(TextModels, ConversationsShareTheCache) {
  const std::string path = make();
  TextModel model = TextModel::open(path), other = TextModel::open(path);
  const ChatOptions options{.system = "Be brief.", .generate = {.max_tokens = 8, .temperature = 0}};
  Chat a = model.chat(options), b = model.chat(options), alone = other.chat(options);
  const std::string first = a.answer("In the").text;
  EXPECT_EQ(b.answer("In the").text, first);
  model.generate("beginning", {.max_tokens = 4});
  EXPECT_EQ(alone.answer("In the").text, first);
  EXPECT_EQ(a.answer("God").text, alone.answer("God").text);
  a.reset();
  EXPECT_EQ(a.answer("In the").text, first);
  EXPECT_EQ(a.dialogue().system(), "Be brief.");
}

TEST_F(TextModels, ContextsGrowWithTheText) {
  const std::string path = make("16");
  std::vector<int64_t> grown;
  TextModel growing = TextModel::open(path, {}, {.on_growth = [&](int64_t p) { grown.push_back(p); }});
  TextModel fixed = TextModel::open(path, {}, {.context = 16});
  const GenerateSettings settings{.max_tokens = 100, .temperature = 0};
  EXPECT_EQ(growing.generate("a", {.max_tokens = 2}).stop_reason, StopReason::kMaxTokens);
  EXPECT_EQ(growing.generate("a", settings).tokens.size(), 100u);
  EXPECT_FALSE(grown.empty());
  EXPECT_EQ(cache_size(growing.model())->positions, grown.back()) << "the model has the session's cache";
  EXPECT_EQ(growing.generate("a", settings).tokens.size(), 100u) << "and it holds the same text again";
  EXPECT_EQ(fixed.generate("a", settings).stop_reason, StopReason::kCacheFull);
  EXPECT_EQ(fixed.longest_text(), 16);
}

TEST_F(TextModels, NameTheFileInErrors) {
  const std::string path = make();
  TextModel model = TextModel::open(path);
  EXPECT_NE(error_of([&] { model.generate(""); }).find(path), std::string::npos);
  EXPECT_NE(error_of([&] { TextModel::open("nosuch.genesis"); }).find("nosuch.genesis"), std::string::npos);
  EXPECT_THROW(model.chat({.variables = "3"}), SettingError);
  TextModel bytes = TextModel::open(make("0", "256"));
  EXPECT_EQ(bytes.encode("ab"), (std::vector<int64_t>{97, 98}));
  EXPECT_FALSE(bytes.tokenizer());
  EXPECT_NE(error_of([&] { bytes.chat(); }).find("brings no tokenizer"), std::string::npos);
}

TEST_F(TextModels, SamplesOfManyPromptsComeInOrder) {
  write("lines.txt", "one\n\ntwo\n");
  const TextModel model = TextModel::open(make("0", "256"));
  Samples samples(model, Prompts({"zero"}, {}, (folder_ / "lines.txt").string()),
                  {.generate = {.max_tokens = 5, .seed = 10}, .samples = 2});
  EXPECT_EQ(samples.count(), 6);
  EXPECT_EQ(samples.positions(), 4 + 5);
  EXPECT_FALSE(samples.unfit());
  std::string order;
  while (const auto sample = samples.next())
    order += fmt::format("{} {} {} {}; ", sample->index, sample->number, sample->prompt.text,
                         sample->request.options.seed);
  EXPECT_EQ(order, "0 0 zero 10; 0 1 zero 11; 1 0 one 10; 1 1 one 11; 2 0 two 10; 2 1 two 11; ");
}

}  // namespace
}  // namespace genesis::text
