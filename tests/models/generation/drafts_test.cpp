// Tests speculative decoding: with any drafter a text has on the CPU exactly the tokens that it has without drafts, greedy and drawn,
// for weights of every kind and any number of rows; and it takes fewer steps where drafts are good.
#include "executor/generation/draft_length.h"
#include "executor/generation/drafter.h"
#include "executor/generation/engine.h"
#include "executor/generation/model_drafter.h"
#include "executor/inspector.h"
#include "models/generation/generator.h"
#include "models/zoo.h"
#include "passes/core/quantized_cache.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using generation::Drafts;
using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 67;

struct Kind {
  std::string name, weights, model = "qwen2", head = "16";
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

std::shared_ptr<const Model> make(const Kind& kind, int64_t rows, int64_t positions = 160,
                                  models::Settings more = {}) {
  models::Settings settings =
      kind.model == "gpt2"
          ? models::Settings{{"n_embd", "64"}, {"n_layer", "2"}, {"n_head", "4"}, {"n_positions", "160"}}
          : models::Settings{{"hidden_size", "64"},
                             {"intermediate_size", "96"},
                             {"num_hidden_layers", "2"},
                             {"num_attention_heads", "4"},
                             {"num_key_value_heads", "2"},
                             {"head_dim", kind.head},
                             {"max_position_embeddings", "160"}};
  settings.insert({{"vocab_size", std::to_string(kVocabulary)}, {"initializer_range", "0.1"}});
  settings.merge(more);
  std::unique_ptr<Model> model = models::make_model(kind.model, settings, 3);
  if (kind.weights.starts_with("bf16")) model = passes::cast_precision(*model, DType::bf16);
  if (kind.weights.starts_with("f16")) model = passes::cast_precision(*model, DType::f16);
  if (kind.weights.ends_with("q8")) passes::quantize(*model, {.format = WeightFormat::kQ8, .head = true});
  if (kind.weights.ends_with("q4")) passes::quantize(*model, {.format = WeightFormat::kQ4});
  if (kind.weights.starts_with("cache_q8")) model = passes::with_quantized_cache(*model);
  return models::with_cache(*model, rows, positions);
}

using MakeDrafter = std::function<std::shared_ptr<generation::Drafter>(const CacheSize&)>;

MakeDrafter ngrams() {
  return [](const CacheSize&) { return generation::make_ngram_drafter(); };
}
MakeDrafter smaller(const Kind& kind) {
  return [kind](const CacheSize& cache) {
    return generation::make_model_drafter(
        open_for_generation(make({"", "q4", kind.model, kind.head}, cache.rows, 64), {.threads = 2}), 160);
  };
}

std::vector<GenerateResult> generated(const std::shared_ptr<const Model>& model,
                                      const std::vector<Request>& requests, const MakeDrafter& drafter,
                                      int64_t most = 7) {
  Session session = open_for_generation(model, {.threads = 2}, drafter != nullptr);
  GeneratorOptions options;
  options.drafter = drafter;
  options.draft_tokens = most;
  return Generator(session, options).generate_all(requests);
}

Tokens prompt_of(int64_t length, int64_t seed) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back((i * i * 17 + seed * 29 + 5) % kVocabulary);
  return tokens;
}

std::vector<Request> some_requests() {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 6; ++i) {
    GenerateOptions options = {.max_tokens = 40 + i, .temperature = i % 2 == 0 ? 0.0 : 0.8};
    options.seed = static_cast<uint64_t>(i);
    if (i == 3) options.top_k = 5, options.stop_tokens = {1, 2, 3};
    if (i == 5) options.top_p = 0.9, options.max_tokens = 1000;  // up to the end of the cache
    requests.push_back({prompt_of(3 + 9 * i, i), options});
  }
  return requests;
}

void expect_same_texts(const std::vector<GenerateResult>& got, const std::vector<GenerateResult>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << "text " << i;
    EXPECT_EQ(got[i].stop_reason, expected[i].stop_reason) << "text " << i;
  }
}

class DraftsOfKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(DraftsOfKinds, ChangeNoText) {
  const std::vector<Request> requests = some_requests();
  const auto expected = generated(make(GetParam(), 1), requests, {});
  for (const int64_t rows : {1, 3})
    for (const MakeDrafter& drafter : {ngrams(), smaller(GetParam())}) {
      SCOPED_TRACE(fmt::format("{} rows", rows));
      const auto got = generated(make(GetParam(), rows), requests, drafter, rows == 1 ? 15 : 7);
      expect_same_texts(got, expected);
      int64_t steps = 0, tokens = 0, accepted = 0;
      for (const GenerateResult& each : got)
        steps += each.steps, tokens += std::ssize(each.tokens), accepted += each.accepted;
      EXPECT_GE(steps, tokens - accepted);  // each chooses one token more, unless the text has ended
      EXPECT_LE(steps, tokens - accepted + std::ssize(got));
      EXPECT_LT(10 * steps, 9 * tokens);
    }
}

INSTANTIATE_TEST_SUITE_P(, DraftsOfKinds,
                         ::testing::Values(Kind{"f32", "f32"}, Kind{"bf16", "bf16"}, Kind{"f16", "f16"},
                                           Kind{"cache_q8", "cache_q8"}, Kind{"q8", "f16q8"},
                                           Kind{"q4", "bf16q4"}, Kind{"odd_heads", "bf16", "qwen2", "24"},
                                           Kind{"gpt2", "f32", "gpt2"}),
                         [](const auto& info) { return info.param.name; });

// Two tokens of every draft are right.
class HalfRight final : public generation::Drafter {
 public:
  explicit HalfRight(Tokens text) : text_(std::move(text)) {}
  Drafts draft(std::span<const generation::DraftRow> rows) override {
    Drafts drafts(rows.size());
    for (size_t r = 0; r < rows.size(); ++r)
      for (int64_t i = 0; i < rows[r].most; ++i) {
        const size_t at = rows[r].text->size() + static_cast<size_t>(i);
        const int64_t right = at < text_.size() ? text_[at] : 0;
        drafts[r].push_back(i < 2 ? right : (right + 1) % kVocabulary);
      }
    return drafts;
  }

 private:
  const Tokens text_;
};

class Broken final : public generation::Drafter {
 public:
  Drafts draft(std::span<const generation::DraftRow>) override { fail("the drafter is broken"); }
};

TEST(Drafts, AreTakenUpToTheFirstThatIsAnother) {
  const auto model = make({"", "f32"}, 1);
  const std::vector<Request> one = {{prompt_of(5, 1), {.max_tokens = 41, .temperature = 0}}};
  const auto expected = generated(model, one, {});
  Tokens text = one[0].prompt;
  text.insert(text.end(), expected[0].tokens.begin(), expected[0].tokens.end());
  const auto got = generated(
      model, one, [&](const CacheSize&) { return std::make_shared<HalfRight>(text); }, 5);
  expect_same_texts(got, expected);
  EXPECT_LE(got[0].steps, 15);  // three tokens a step
  EXPECT_GE(got[0].accepted, 26);
  EXPECT_EQ(expected[0].steps, 41);
  EXPECT_EQ(expected[0].drafted, 0);
}

TEST(Drafts, OfABrokenDrafterAreGivenUp) {
  const auto model = make({"", "f32"}, 2);
  const auto requests = some_requests();
  expect_same_texts(generated(model, requests, [](const CacheSize&) { return std::make_shared<Broken>(); }),
                    generated(model, requests, {}));
}

// Penalties, biases and log-probabilities are computed by single steps. A row without them waits for its neighbor.
TEST(Drafts, StandBackWhereAStepNeedsMore) {
  const auto model = make({"", "f32"}, 2);
  auto requests = some_requests();
  requests[0].options.logprobs = true;
  requests[1].options.repetition_penalty = 1.2;
  requests[2].options.no_repeat_ngram_size = 2;
  requests[4].options.logit_bias = {{{7}, 3.0}};
  const auto expected = generated(model, requests, {}), got = generated(model, requests, ngrams());
  expect_same_texts(got, expected);
  for (const size_t i : {0, 1, 2, 4}) EXPECT_EQ(got[i].drafted, 0) << i;
}

TEST(Drafts, GoOnInACacheThatGrows) {
  const std::vector<Request> one = {{prompt_of(9, 2), {.max_tokens = 60, .temperature = 0}}};
  const auto expected = generated(make({"", "f32"}, 1), one, {});
  Session session = open_for_generation(make({"", "f32"}, 1, 32), {.threads = 2}, true);
  GeneratorOptions options;
  options.drafter = smaller({"", "f32"});
  Generator generator(session, options);
  GenerateOptions first = one[0].options;
  first.max_tokens = 20;
  Tokens tokens = generator.continue_with(one[0].prompt, first).tokens;
  generator.grow(160);
  first.max_tokens = 40;
  const GenerateResult rest = generator.continue_with({}, first);
  tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(tokens, expected[0].tokens);
  EXPECT_GT(rest.accepted, 0);
}

TEST(Drafts, AreRefusedInWordsWhereNoneCanBeVerified) {
  const auto dynamic =
      make({"", "f32", "llama"}, 1, 160,
           {{"rope_scaling", "dynamic"}, {"rope_factor", "2"}, {"rope_original_positions", "64"}});
  expect_error([&] { open_for_generation(dynamic, {}, true); }, {"drafts", "length of the text"});
  Session session = open_for_generation(make({"", "f32"}, 1));
  expect_error([&] { Generator(session, {.drafter = ngrams()}); },
               {"verifies no drafts", "open_for_generation"});
  Session verifies = open_for_generation(make({"", "f32"}, 1), {}, true);
  GeneratorOptions options;
  options.drafter = ngrams();
  options.draft_tokens = 16;
  expect_error([&] { Generator(verifies, options); }, {"16 tokens", "1 to 15"});
}

// The CPU computes attention of a few queries like that of one, and that of many queries otherwise.
TEST(Drafts, AreVerifiedByTheKernelsOfSingleSteps) {
  Session session = open_for_generation(make({"", "bf16"}, 1), {.threads = 2}, true);
  for (const int64_t tokens : {2, 4, 8, 16}) {
    const NamedTensors inputs = {{"tokens", Tensor::zeros({DType::i64, {1, tokens}})},
                                 {"position", Tensor::zeros({DType::i64, {1}})},
                                 {"length", Tensor::of<int64_t>({1}, {tokens})}};
    const auto kernels = Inspector(session).kernels(generation::verify_name(tokens), inputs);
    EXPECT_EQ(std::ranges::count(kernels, "attention.decode"), 2 * std::max<int64_t>(tokens / 4, 1));
    EXPECT_EQ(std::ranges::count(kernels, "attention.blocks"), 0);
    EXPECT_GT(std::ranges::count(kernels, "gemm.gemv"), 0);
  }
}

TEST(Drafts, OfNgramsRepeatTheText) {
  using generation::repeated_tokens;
  EXPECT_EQ(repeated_tokens(Tokens{1, 2, 3, 4, 1, 2}, 2), (Tokens{3, 4}));
  EXPECT_EQ(repeated_tokens(Tokens{1, 2, 3, 4, 1, 2}, 6), (Tokens{3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(repeated_tokens(Tokens{7, 1, 2, 5, 9, 1, 2, 6, 7, 1, 2}, 1), Tokens{5});  // the longest match
  EXPECT_EQ(repeated_tokens(Tokens{1, 2, 5, 9, 1, 2, 6, 8, 1, 2}, 1), Tokens{6});     // the last one
  EXPECT_EQ(repeated_tokens(Tokens{4, 4, 4}, 3), (Tokens{4, 4, 4}));
  for (const Tokens& text : {Tokens{}, Tokens{1}, Tokens{1, 2, 3}, Tokens{1, 2, 9, 2}})
    EXPECT_EQ(repeated_tokens(text, 4), Tokens{});
}

TEST(Drafts, AreAsLongAsTheyAreAccepted) {
  generation::DraftLength length(7);
  EXPECT_EQ(length.next(), 3);
  length.take(3, 3);
  EXPECT_EQ(length.next(), 7);
  length.take(7, 7);
  EXPECT_EQ(length.next(), 7);
  length.take(7, 4);
  EXPECT_EQ(length.next(), 7);
  length.take(7, 1);
  EXPECT_EQ(length.next(), 3);
  length.take(3, 0);
  EXPECT_EQ(length.next(), 1);
  length.take(1, 0);  // two steps without
  EXPECT_EQ(length.next() + length.next(), 0);
  EXPECT_EQ(length.next(), 1);
  length.take(1, 0);
  EXPECT_EQ(length.next() + length.next() + length.next() + length.next(), 0);
  EXPECT_EQ(length.next(), 1);
}

}  // namespace
}  // namespace genesis::text
