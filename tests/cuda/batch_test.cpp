// Tests texts generated side by side on a GPU against the CPU: each equals the text generated alone, and in bf16 it
// does not depend on the neighboring rows. Skipped without a GPU.
#include <fmt/format.h>

#include <algorithm>

#include "executor/generation/engine.h"
#include "executor/generation/stopwatch.h"
#include "models/generation/generator.h"
#include "models/zoo.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 500, kPositions = 256;

using CudaBatch = OnGpu;

std::unique_ptr<Model> made_model(DType dtype, const models::Settings& more = {}) {
  return qwen_of_three_layers(dtype, kPositions, "0.2", more);
}

Tokens prompt_of(int64_t length, int64_t seed) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back((i * 37 + seed * 29 + 11) % kVocabulary);
  return tokens;
}

// Returns prompts of various lengths, greedy and sampled, that end at different times.
std::vector<Request> requests() {
  std::vector<Request> all;
  const int64_t lengths[] = {1, 150, 7, 33, 2, kPositions, 90, 12, 5, 64, 1};
  for (const int64_t length : lengths) {
    const auto i = std::ssize(all);
    GenerateOptions options = {
        .max_tokens = 10 + 13 * (i % 4), .temperature = 0, .seed = 40 + static_cast<uint64_t>(i)};
    if (i % 3 == 1) options.temperature = 0.9, options.top_k = 40, options.min_p = 0.02;
    if (i % 3 == 2)
      options.temperature = 1, options.repetition_penalty = 1.2, options.frequency_penalty = 0.3;
    options.logprobs = i == 3;
    all.push_back({prompt_of(length, i), options});
  }
  return all;
}

std::vector<Tokens> texts_of(const Model& model, int64_t rows, const std::string& device,
                             const std::vector<Request>& requests) {
  Session session = open_for_generation(
      std::shared_ptr<const Model>(models::with_cache(model, rows, kPositions)), {.device = device});
  Generator generator(session);
  std::vector<Tokens> texts;
  for (const GenerateResult& result : generator.generate_all(requests)) texts.push_back(result.tokens);
  return texts;
}

TEST_F(CudaBatch, TextsAreThoseOfTheCpu) {
  for (const models::Settings& more : {models::Settings{}, models::Settings{{"sliding_window", "50"}}}) {
    const auto made = made_model(DType::f32, more);
    const auto expected = texts_of(*made, 1, "cpu", requests());
    for (const int64_t rows : {1, 2, 4, 16}) {
      SCOPED_TRACE(fmt::format("{} rows", rows));
      EXPECT_EQ(texts_of(*made, rows, "cuda", requests()), expected);
    }
  }
}

// Requests come while others run, and their prompts are read in chunks between the steps.
TEST_F(CudaBatch, TextsOfAnEngineAreThoseOfTheCpu) {
  const auto made = made_model(DType::f32);
  const std::vector<Request> all = requests();
  const auto expected = texts_of(*made, 1, "cpu", all);
  for (const int64_t rows : {1, 4})
    for (const int64_t budget : {32, 512}) {
      SCOPED_TRACE(fmt::format("{} rows, budget {}", rows, budget));
      Session session = open_for_generation(
          std::shared_ptr<const Model>(models::with_cache(*made, rows, kPositions)), {.device = "cuda"});
      generation::Engine engine(session, {.step_tokens = budget});
      std::vector<generation::RequestId> ids;
      for (const Request& request : all) {
        ids.push_back(engine.submit({request.prompt, request.options}));
        for (int step = 0; step < 3; ++step) engine.step();
        const auto cancelled = engine.submit({prompt_of(100, 3)});
        engine.step();
        engine.cancel(cancelled);
      }
      while (engine.step()) {
      }
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(engine.poll(ids[i]).result->tokens, expected[i]) << i;
    }
}

// Several prompts are read in one run. The rows of the smaller cache have fewer positions than the power of two above the prompts' tokens;
// the larger one has pages, and none for its last row.
TEST_F(CudaBatch, PromptsThatAreReadInOneRunGiveTheTextsOfTheCpu) {
  struct Cache {
    int64_t positions, rows, bytes;
  };
  std::vector<Request> all;
  for (const int64_t length : {70, 140, 180, 170})
    all.push_back({prompt_of(length, length), {.max_tokens = 8, .temperature = 0}});
  const auto made = qwen_of_three_layers(DType::f32, 4096, "0.2");
  const auto expected = texts_of(*made, 1, "cpu", all);
  for (const Cache& cache : {Cache{200, 4, 0}, Cache{4096, 5, int64_t{64} << 20}}) {
    SCOPED_TRACE(fmt::format("{} rows of {}", cache.rows, cache.positions));
    Session session = open_for_generation(
        std::shared_ptr<const Model>(models::with_cache(*made, cache.rows, cache.positions)),
        {.device = "cuda"});
    generation::Engine engine(session,
                              {.prefill_chunk = 1024, .step_tokens = 1024, .cache_bytes = cache.bytes});
    std::vector<generation::RequestId> ids;
    for (const Request& request : all) ids.push_back(engine.submit({request.prompt, request.options}));
    while (engine.step()) {
    }
    int64_t runs = 0;
    for (const auto& each : engine.work().prompts.classes()) runs += each.runs;
    EXPECT_EQ(runs, 1);
    for (size_t i = 0; i < all.size(); ++i) {
      const generation::Result result = *engine.poll(ids[i]).result;
      EXPECT_EQ(result.error_text(), "");
      EXPECT_EQ(result.tokens, expected[i]) << i;
    }
  }
}

// Neither the neighboring rows nor its own row changes a token of a text.
TEST_F(CudaBatch, NeighborsChangeNothing) {
  const auto made = made_model(DType::bf16);
  std::vector<Request> all = requests();
  const auto expected = texts_of(*made, 4, "cuda", all);
  EXPECT_EQ(texts_of(*made, 4, "cuda", all), expected) << "two runs differ";
  // Prefill of all prompts groups them by order, and other groups round differently, so each prompt has one token
  // here.
  for (Request& request : all) request.prompt.resize(1);
  auto in_order = texts_of(*made, 4, "cuda", all);
  std::reverse(all.begin(), all.end());
  auto reversed = texts_of(*made, 4, "cuda", all);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(reversed, in_order);
}

TEST_F(CudaBatch, MistakesAreErrorsAndChangeNothing) {
  const auto made = made_model(DType::bf16);
  Session session = open_for_generation(
      std::shared_ptr<const Model>(models::with_cache(*made, 3, kPositions)), {.device = "cuda"});
  Generator generator(session);
  const std::vector<Request> all = requests();
  const auto before = generator.generate_all(all);
  const std::string name = "model.norm.weight";
  const Tensor good = session.state(name);
  const std::vector<uint8_t> nans(static_cast<size_t>(good.numel()) * size_of(good.type().dtype), 0xff);
  session.set_state(name, Tensor::copy_of(good.type(), nans.data()));
  expect_error([&] { generator.generate_all(all); }, {"not a number", "positions"});
  session.set_state(name, good);
  const auto after = generator.generate_all(all);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(after[i].tokens, before[i].tokens) << i;
}

}  // namespace
}  // namespace genesis::text
