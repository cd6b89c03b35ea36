// Tests that on the CPU a text in a batch is bit-identical to the text generated alone: for weights of every kind,
// every number of rows, any neighbors and every cache size. Log-probabilities are compared too, since equal tokens
// can hide differences in the last bits.
#include "models/generation/generator.h"
#include "models/zoo.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 67;

// Layers with few features choose other kernels at other numbers of rows than layers with many.
struct Kind {
  std::string name, weights, model = "qwen2", hidden = "288", positions = "448";
  models::Settings more = {};
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

std::shared_ptr<const Model> make(const Kind& kind) {
  models::Settings settings = {{"vocab_size", std::to_string(kVocabulary)}, {"initializer_range", "0.1"}};
  const models::Settings sizes = kind.model == "gpt2"
                                     ? models::Settings{{"n_embd", kind.hidden},
                                                        {"n_layer", "2"},
                                                        {"n_head", "2"},
                                                        {"n_positions", kind.positions}}
                                     : models::Settings{{"hidden_size", kind.hidden},
                                                        {"intermediate_size", "96"},
                                                        {"num_hidden_layers", "2"},
                                                        {"num_attention_heads", "4"},
                                                        {"num_key_value_heads", "2"},
                                                        {"head_dim", "16"},
                                                        {"max_position_embeddings", kind.positions}};
  settings.insert(sizes.begin(), sizes.end());
  for (const auto& [key, value] : kind.more) settings[key] = value;
  std::unique_ptr<Model> model = models::make_model(kind.model, settings, 3);
  if (kind.weights.starts_with("bf16")) model = passes::cast_precision(*model, DType::bf16);
  if (kind.weights.starts_with("f16")) model = passes::cast_precision(*model, DType::f16);
  if (kind.weights.ends_with("q8")) passes::quantize(*model, {.format = WeightFormat::kQ8, .head = true});
  if (kind.weights.ends_with("q4")) passes::quantize(*model, {.format = WeightFormat::kQ4});
  return model;
}

struct Texts {
  Session session;
  Generator generator;
  Texts(const Model& model, int64_t rows, int64_t positions, GeneratorOptions options = {})
      : session(open_for_generation(std::shared_ptr<const Model>(models::with_cache(model, rows, positions)),
                                    {.threads = 2})),
        generator(session, std::move(options)) {}
};

Tokens prompt_of(int64_t length) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back((i * i * 17 + length * 29 + 5) % kVocabulary);
  return tokens;
}

// Returns requests with different options, including the seed.
std::vector<Request> requests_of(const Tokens& lengths) {
  std::vector<Request> requests;
  for (const int64_t length : lengths) {
    GenerateOptions options = {.max_tokens = 4, .temperature = 1.2, .seed = static_cast<uint64_t>(length)};
    options.logprobs = length % 5 != 3;
    if (options.logprobs) options.top_logprobs = 2;
    if (length % 3 == 1) options.repetition_penalty = 1.3, options.presence_penalty = 0.4;
    if (length % 4 == 2) options.temperature = 0;
    requests.push_back({prompt_of(length), options});
  }
  return requests;
}

std::vector<GenerateResult> alone(const Model& model, int64_t positions,
                                  const std::vector<Request>& requests) {
  Texts texts(model, 1, positions);
  std::vector<GenerateResult> results;
  for (const Request& request : requests) {
    texts.generator.rewind(0);
    results.push_back(texts.generator.continue_with(request.prompt, request.options));
  }
  return results;
}

void expect_same_bits(const std::vector<GenerateResult>& got, const std::vector<GenerateResult>& expected,
                      const std::vector<Request>& requests) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(fmt::format("a prompt of {} tokens", requests[i].prompt.size()));
    EXPECT_EQ(got[i].tokens, expected[i].tokens);
    ASSERT_EQ(got[i].logprobs.size(), expected[i].logprobs.size());
    for (size_t t = 0; t < got[i].logprobs.size(); ++t) {
      EXPECT_EQ(got[i].logprobs[t].logprob, expected[i].logprobs[t].logprob) << t;
      for (size_t k = 0; k < 2; ++k)
        EXPECT_EQ(got[i].logprobs[t].top[k].logprob, expected[i].logprobs[t].top[k].logprob) << t;
    }
  }
}

class Alone : public ::testing::TestWithParam<Kind> {
 protected:
  const std::shared_ptr<const Model> model_ = make(GetParam());
};

// Covers the numbers of rows up to which kernels change, and more than a block of rows has.
TEST_P(Alone, ABatchHasTheBitsOfItsTexts) {
  const std::vector<Request> requests = requests_of({5, 1, 31, 2, 70, 9, 33, 18, 100, 65, 13});
  const auto expected = alone(*model_, 128, requests);
  for (const int64_t rows : {3, 11}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    Texts texts(*model_, rows, 128);
    expect_same_bits(texts.generator.generate_all(requests), expected, requests);
  }
  std::vector<Request> many;
  for (size_t i = 0; i < 7; ++i) many.insert(many.end(), requests.begin(), requests.end());
  std::vector<GenerateResult> expected_of_many;
  for (size_t i = 0; i < 7; ++i)
    expected_of_many.insert(expected_of_many.end(), expected.begin(), expected.end());
  Texts texts(*model_, 70, 128);
  expect_same_bits(texts.generator.generate_all(many), expected_of_many, many);
}

// Covers sizes that are no powers of two, prompts that just fit, and contexts of a few tokens.
TEST_P(Alone, TheContextChangesNoBit) {
  const std::vector<Request> requests = requests_of({3, 7, 11, 12, 17, 18, 19});
  const auto expected = alone(*model_, 128, requests);
  for (const int64_t positions : {22, 100})
    for (const int64_t rows : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} positions, {} rows", positions, rows));
      Texts texts(*model_, rows, positions);
      expect_same_bits(texts.generator.generate_all(requests), expected, requests);
    }
}

INSTANTIATE_TEST_SUITE_P(Weights, Alone,
                         ::testing::Values(Kind{"f32", "f32"}, Kind{"bf16", "bf16"},
                                           Kind{"narrow_f16", "f16", "gpt2", "48"},
                                           Kind{"narrow_bf16", "bf16", "qwen2", "64"},
                                           Kind{"middle_bf16", "bf16", "gpt2", "160"}, Kind{"q4", "q4"},
                                           Kind{"bf16_q8", "bf16_q8", "qwen3", "64"},
                                           Kind{"bf16_q4", "bf16_q4", "gpt2", "128"}),
                         [](const auto& info) { return info.param.name; });

// A padded chunk never has more tokens than the cache has positions.
TEST(Batch, PromptsFillAContextThatIsNoPowerOfTwo) {
  const auto model = make({"bf16", "bf16", "qwen2", "32"});
  const std::vector<Request> requests = requests_of({1, 385, 448, 447, 2, 400, 321, 445});
  const auto expected = alone(*model, 448, requests);
  for (const int64_t rows : {2, 4}) {
    Texts texts(*model, rows, 448);
    expect_same_bits(texts.generator.generate_all(requests), expected, requests);
  }
}

// Requests are taken when a row is free, and results are returned as they end.
TEST(Batch, NothingIsKeptOfTextsThatEnded) {
  const auto model = make({"f32", "f32", "qwen2", "32"});
  Texts texts(*model, 3, 32);
  constexpr size_t kRequests = 200;
  size_t asked = 0, given = 0, most = 0;
  std::vector<bool> seen(kRequests);
  const auto next = [&]() -> std::optional<Request> {
    if (asked == kRequests) return std::nullopt;
    most = std::max(most, ++asked - given);
    const auto length = static_cast<int64_t>(asked % 7 + 1);
    return Request{prompt_of(length), {.max_tokens = length % 3, .temperature = 0}};
  };
  texts.generator.generate_each(next, [&](size_t number, const GenerateResult& result) {
    EXPECT_EQ(std::ssize(result.tokens), static_cast<int64_t>((number + 1) % 7 + 1) % 3);
    EXPECT_FALSE(seen[number]);
    seen[number] = true;
    ++given;
  });
  EXPECT_EQ(given, kRequests);
  EXPECT_LE(most, 4u) << "a request waits for a row beside those that have one";
}

TEST(Batch, ARequestThatIsNotFitIsNamedAndLeavesWhatWasGiven) {
  const auto model = make({"f32", "f32", "qwen2", "32"});
  Texts texts(*model, 2, 32);
  int64_t asked = 0;
  std::vector<size_t> given;
  const auto next = [&] {
    return std::optional<Request>({prompt_of(++asked == 6 ? 33 : 3), {.max_tokens = 2, .temperature = 0}});
  };
  testing::expect_error(
      [&] {
        texts.generator.generate_each(next,
                                      [&](size_t number, const GenerateResult&) { given.push_back(number); });
      },
      {"request 5", "33 tokens", "holds 32"});
  EXPECT_EQ(given, (std::vector<size_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace genesis::text
