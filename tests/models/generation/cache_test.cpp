// Tests that the size of the cache belongs to the session: caches of any size from one file give the same tokens, a cache
// grows with the text in it, and files with entry points of older versions still generate.
#include <cmath>

#include "models/generation/generator.h"
#include "models/generation/sampling_entries.h"
#include "models/zoo.h"
#include "passes/core/cache_size.h"
#include "passes/core/quantized_cache.h"
#include "passes/precision/cast_precision.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/caches.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis::text {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

struct Kind {
  std::string name, model, file;  // a file of an older version with the same weights; empty: there is none
  models::Settings more = {};
  bool in_8_bits = false;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

std::shared_ptr<const Model> make(const Kind& kind) {
  models::Settings settings = {{"vocab_size", "61"}, {"initializer_range", "0.3"}};
  const models::Settings sizes =
      kind.model == "gpt2"
          ? models::Settings{{"n_embd", "16"}, {"n_layer", "1"}, {"n_head", "2"}, {"n_positions", "24"}}
          : models::Settings{{"hidden_size", "16"},        {"intermediate_size", "24"},
                             {"num_hidden_layers", "1"},   {"num_attention_heads", "2"},
                             {"num_key_value_heads", "1"}, {"max_position_embeddings", "24"}};
  settings.insert(sizes.begin(), sizes.end());
  settings.insert(kind.more.begin(), kind.more.end());
  std::shared_ptr<const Model> model = models::make_model(kind.model, settings);
  return kind.in_8_bits ? passes::with_quantized_cache(*model) : model;
}

std::shared_ptr<const Model> old_file(const Kind& kind) {
  return load_model(std::filesystem::path(GENESIS_SOURCE_ROOT) / "tests/models/golden" / kind.file);
}

const std::vector<Request> kRequests = {
    {{5, 1, 36, 0, 7}, {.max_tokens = 6, .temperature = 1.1, .seed = 4, .logprobs = true}},
    {{60}, {.max_tokens = 9, .temperature = 0, .logprobs = true}},
    {{22, 9, 41, 3, 3, 17, 8, 30, 2},
     {.max_tokens = 3, .temperature = 0.7, .repetition_penalty = 1.2, .logprobs = true}},
};

std::vector<GenerateResult> generated(const std::shared_ptr<const Model>& model,
                                      const SessionOptions& options = {}) {
  Session session = open_for_generation(model, options);
  return Generator(session).generate_all(kRequests);
}

void expect_same_bits(const std::vector<GenerateResult>& got, const std::vector<GenerateResult>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
    ASSERT_EQ(got[i].logprobs.size(), expected[i].logprobs.size()) << i;
    for (size_t t = 0; t < got[i].logprobs.size(); ++t)
      EXPECT_EQ(got[i].logprobs[t].logprob, expected[i].logprobs[t].logprob) << i << " " << t;
  }
}

class CacheOfAText : public ::testing::TestWithParam<Kind> {
 protected:
  const std::shared_ptr<const Model> model_ = make(GetParam());
};

TEST_P(CacheOfAText, OfAnySizeGivesTheSame) {
  const TemporaryFolder folder;
  save_model(*model_, folder / "m.genesis");
  const std::shared_ptr<const Model> file = load_model(folder / "m.genesis");
  const auto expected = generated(model_);
  for (const CacheSize size : {CacheSize{1, 12}, CacheSize{1, 23}, CacheSize{3, 14}, CacheSize{2, 24}}) {
    SCOPED_TRACE(fmt::format("{} rows of {} positions", size.rows, size.positions));
    const std::shared_ptr<const Model> sized = models::with_cache(*file, size.rows, size.positions);
    EXPECT_EQ(rows_of_cache(*sized), size.rows);
    EXPECT_EQ(positions_of_cache(*sized), size.positions);
    expect_same_bits(generated(sized), expected);
  }
  expect_same_bits(generated(model_, {.cache = CacheSize{1, 13}}), expected);
}

// Adding to a text gives the same in a cache that has just grown as in one that was long from the beginning.
TEST_P(CacheOfAText, KeepsItsBitsWhileItGrows) {
  const auto file = GetParam().file.empty() ? model_ : old_file(GetParam());
  Session growing = open_for_generation(file, {.cache = CacheSize{1, 8}}),
          whole = open_for_generation(model_);
  Generator grows(growing), has_room(whole);
  const GenerateOptions options = {.max_tokens = 2, .temperature = 0.9, .seed = 11, .logprobs = true};
  const Tokens prompt = {5, 1, 36, 0}, more = {60, 22}, end = {9, 41, 3};
  const auto expect_same = [&](const Tokens& tokens) {
    const GenerateResult got = grows.continue_with(tokens, options),
                         expected = has_room.continue_with(tokens, options);
    expect_same_bits({got}, {expected});
    EXPECT_EQ(got.prefilled, expected.prefilled) << "nothing is read again";
  };
  expect_same(prompt);
  grows.grow(11);
  EXPECT_EQ(grows.capacity(), 11);
  expect_same(more);
  expect_error([&] { grows.check(end, options); }, {"13 tokens", "holds 11"});
  grows.grow(24);
  expect_same(end);
  grows.rewind(3), has_room.rewind(3);
  expect_same(end);
}

TEST_P(CacheOfAText, OfAnOlderFileIsTheSame) {
  if (GetParam().file.empty()) GTEST_SKIP() << "there is no older file of this kind";
  const auto file = old_file(GetParam());
  EXPECT_FALSE(file->state(file->find_state("model.layers.0.self_attn.k_cache")).cache)
      << "it declares nothing";
  EXPECT_EQ(cache_size(*file), (CacheSize{1, 24}));
  const auto expected = generated(model_);
  expect_same_bits(generated(file), expected);
  expect_same_bits(generated(models::with_cache(*file, 1, 13)), expected);
  expect_same_bits(generated(models::with_cache(*file, 3, 20)), expected);
}

// A model that is not from the zoo, as far as its metadata tell.
TEST_P(CacheOfAText, NeedsNoConfig) {
  Model unknown = *model_;
  unknown.metadata.clear();
  for (const int64_t rows : {1, 3}) {
    const std::shared_ptr<const Model> sized = models::with_cache(unknown, rows, 15);
    EXPECT_EQ(positions_of_cache(*sized), 15);
    EXPECT_TRUE(sized->metadata.empty());
    expect_same_bits(generated(sized), generated(model_));
  }
}

TEST_P(CacheOfAText, TakesTheBytesThatWereSaid) {
  Session session = open_for_generation(model_, {.cache = CacheSize{1, 20}});
  int64_t bytes = 0;
  for (const State& state : session.model().states())
    if (cache_layout(state)) bytes += state.type.bytes();
  EXPECT_EQ(cache_bytes(*model_, {1, 20}), bytes);
  EXPECT_LT(cache_bytes(*model_, {1, 20}), cache_bytes(*model_, {1, 21}));
}

// The logits of the same texts differ by the rounding of keys and values.
TEST(CacheIn8Bits, IsCloseToTheNumbers) {
  for (const char* name : {"gpt2", "llama", "gemma2"}) {
    SCOPED_TRACE(name);
    const auto model = make({name, name, ""});
    const std::shared_ptr<const Model> in_8_bits = passes::with_quantized_cache(*model);
    EXPECT_FALSE(passes::has_quantized_cache(*model));
    EXPECT_TRUE(passes::has_quantized_cache(*in_8_bits));
    const auto logits = [](const std::shared_ptr<const Model>& of) {
      Session session(of);
      const Tensor prompt = Tensor::of<int64_t>({1, 7}, {5, 1, 36, 0, 7, 60, 22});
      session.run("prefill", {{"tokens", prompt},
                              {"position", Tensor::of<int64_t>({1}, {0})},
                              {"length", Tensor::of<int64_t>({1}, {7})}});
      return session
          .run("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {9})},
                          {"position", Tensor::of<int64_t>({1}, {7})}})["logits"]
          .to_doubles();
    };
    const std::vector<double> expected = logits(model), got = logits(in_8_bits);
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (got[i] - expected[i]) * (got[i] - expected[i]);
      size += expected[i] * expected[i];
    }
    EXPECT_GT(error, 0);
    EXPECT_LT(std::sqrt(error / size), 0.01);
  }
}

// Evaluation can show the cost without a cache: rounded keys and values give the loss of the text read through the cache.
TEST(CacheIn8Bits, RoundsForEvaluationToo) {
  const auto model = make({"llama", "llama", ""});
  const std::shared_ptr<const Model> rounded = passes::with_rounded_keys(*model);
  const auto all = [](const std::shared_ptr<const Model>& of) {
    Session session(of);
    return session.run("forward", {{"tokens", Tensor::of<int64_t>({1, 4}, {5, 1, 36, 0})}})["logits"];
  };
  Session cached(passes::with_quantized_cache(*model));
  const Tensor last = cached.run("prefill", {{"tokens", Tensor::of<int64_t>({1, 4}, {5, 1, 36, 0})},
                                             {"position", Tensor::of<int64_t>({1}, {0})},
                                             {"length", Tensor::of<int64_t>({1}, {4})}})["logits"];
  const std::vector<double> got = all(rounded).to_doubles(), expected = last.to_doubles();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[got.size() - expected.size() + i], expected[i], 1e-5) << i;
  EXPECT_NE(got, all(model).to_doubles());
}

TEST(CacheIn8Bits, HasAboutHalfTheBytesOfBf16) {
  const auto model = models::make_model(
      "llama", {{"head_dim", "64"}, {"hidden_size", "64"}, {"vocab_size", "61"}, {"num_hidden_layers", "2"}});
  const auto bf16 = passes::cast_precision(*model, DType::bf16), q8 = passes::with_quantized_cache(*model);
  EXPECT_EQ(cache_bytes(*q8, {2, 100}) * 128, cache_bytes(*bf16, {2, 100}) * 68);
  expect_error([&] { passes::with_quantized_cache(*q8); }, {"8 bits already"});
  expect_error([&] { passes::with_quantized_cache(*models::make_model("mlp", {})); }, {"declares no cache"});
}

INSTANTIATE_TEST_SUITE_P(Zoo, CacheOfAText,
                         ::testing::Values(Kind{"gpt2", "gpt2", ""},
                                           Kind{"qwen2", "qwen2", "one_row.genesis"},
                                           Kind{"in_8_bits", "qwen2", "", {}, true},
                                           Kind{"dynamic",
                                                "llama",
                                                "one_row_dynamic.genesis",
                                                {{"rope_scaling", "dynamic"},
                                                 {"rope_factor", "2"},
                                                 {"rope_original_positions", "6"}}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace genesis::text
