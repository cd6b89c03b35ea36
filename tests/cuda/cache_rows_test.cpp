// Tests scaled rotations, sliding windows and caches of several rows on a GPU against the CPU, with every
// implementation of a decode step. Skipped without a GPU.
#include <fmt/format.h>

#include <cmath>

#include "executor/session.h"
#include "models/generation/sampling_entries.h"
#include "models/zoo.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

using CacheRows = OnGpu;

constexpr int64_t kVocabulary = 500, kPositions = 512;

std::shared_ptr<const Model> made_model(const models::Settings& more, DType dtype, int64_t rows) {
  return models::with_cache(*qwen_of_three_layers(dtype, kPositions, "0.05", more), rows, kPositions);
}

const std::map<std::string, models::Settings>& kinds() {
  static const std::map<std::string, models::Settings> all = {
      {"plain", {}},
      {"llama3", {{"rope_scaling", "llama3"}, {"rope_factor", "8"}, {"rope_original_positions", "64"}}},
      {"yarn",
       {{"rope_scaling", "yarn"},
        {"rope_factor", "4"},
        {"rope_original_positions", "128"},
        {"rope_attention_factor", "1.14"}}},
      {"dynamic", {{"rope_scaling", "dynamic"}, {"rope_factor", "2"}, {"rope_original_positions", "64"}}},
      {"sliding",
       {{"sliding_window", "50"}, {"layer_types", "full_attention,sliding_attention,sliding_attention"}}}};
  return all;
}

int64_t token(int64_t i) { return (i * 37 + 11) % kVocabulary; }

// Returns the logits after ragged prompts, and then those of each of `steps` decoded tokens.
std::vector<std::vector<double>> run(Session& session, const Tokens& lengths, int64_t steps) {
  const auto rows = std::ssize(lengths);
  const int64_t width = *std::max_element(lengths.begin(), lengths.end());
  Tokens text, at(lengths.size(), 0);
  for (int64_t i = 0; i < rows * width; ++i) text.push_back(token(i));
  const auto numbers = [&](const Tokens& values) { return Tensor::of<int64_t>({rows}, values); };
  NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({rows, width}, text)}, {"position", numbers(at)}};
  inputs["length"] = numbers(lengths);
  if (text::takes_text_length(session.model())) inputs["text_length"] = numbers(lengths);
  std::vector<std::vector<double>> all = {session.run("prefill", inputs).at("logits").to_doubles()};
  at = lengths;
  for (int64_t step = 0; step < steps; ++step) {
    const Tokens next(lengths.size(), token(1000 + step));
    all.push_back(
        session.run("decode", {{"tokens", Tensor::of<int64_t>({rows, 1}, next)}, {"position", numbers(at)}})
            .at("logits")
            .to_doubles());
    for (int64_t& position : at) ++position;
  }
  return all;
}

void expect_alike(const std::vector<std::vector<double>>& got,
                  const std::vector<std::vector<double>>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double size = 0;
    for (double x : expected[i]) size = std::max(size, std::abs(x));
    for (size_t j = 0; j < got[i].size(); ++j)
      ASSERT_NEAR(got[i][j], expected[i][j], tolerance * size) << "step " << i << ", logit " << j;
  }
}

// Returns the lengths of rows, which are so numerous that kernels for few tokens decline in favor of batched ones.
Tokens many_lengths() {
  Tokens lengths;
  for (int64_t row = 0; row < 18; ++row) lengths.push_back(1 + row * 29 % 97);
  return lengths;
}

double tolerance_of(DType dtype) { return dtype == DType::f32 ? 1e-4 : 0.05; }

TEST_F(CacheRows, OneRowIsTheCpus) {
  for (const auto& [name, settings] : kinds())
    for (DType dtype : {DType::f32, DType::bf16})
      for (int64_t prompt : {3, 200}) {
        SCOPED_TRACE(fmt::format("{} {} after {}", name, name_of(dtype), prompt));
        const auto whole = made_model(settings, dtype, 1);
        Session cpu(whole), cuda(whole, {.device = "cuda"}),
            one_by_one(whole, {.device = "cuda", .disabled = {"megakernel"}}),
            in_parts(whole, {.device = "cuda", .disabled = {"fuse_cached_attention"}});
        const auto expected = run(cpu, {prompt}, 8), got = run(cuda, {prompt}, 8);
        expect_alike(got, expected, tolerance_of(dtype));
        expect_alike(run(one_by_one, {prompt}, 8), expected, tolerance_of(dtype));
        expect_alike(run(in_parts, {prompt}, 8), expected, tolerance_of(dtype));
        EXPECT_EQ(run(cuda, {prompt}, 8), got) << "two runs differ";
      }
}

TEST_F(CacheRows, RaggedRowsAreTheCpus) {
  for (const auto& [name, settings] : kinds())
    for (DType dtype : {DType::f32, DType::bf16})
      for (const Tokens& lengths : {Tokens{5, 1, 9}, Tokens{200, 37, 130, 64}, many_lengths()}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, name_of(dtype), lengths.size()));
        const auto whole = made_model(settings, dtype, std::ssize(lengths));
        Session cpu(whole), cuda(whole, {.device = "cuda"}),
            in_parts(whole, {.device = "cuda", .disabled = {"fuse_cached_attention"}});
        const auto expected = run(cpu, lengths, 6), got = run(cuda, lengths, 6);
        expect_alike(got, expected, tolerance_of(dtype));
        expect_alike(run(in_parts, lengths, 6), expected, tolerance_of(dtype));
        EXPECT_EQ(run(cuda, lengths, 6), got) << "two runs differ";
      }
}

// A row is padded beyond the end of its cache, where cuDNN takes the lengths of the others.
TEST_F(CacheRows, PaddingBeyondTheCacheIsNotSeen) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto whole = made_model({}, dtype, 2);
    Session cpu(whole), cuda(whole, {.device = "cuda"});
    Tokens text;
    for (int64_t i = 0; i < 2 * 100; ++i) text.push_back(token(i));
    const auto step = [&](Session& session) {
      run(session, {400, 400}, 0);
      return session
          .run("prefill", {{"tokens", Tensor::of<int64_t>({2, 100}, text)},
                           {"position", Tensor::of<int64_t>({2}, {0, kPositions - 30})},
                           {"length", Tensor::of<int64_t>({2}, {100, 30})}})
          .at("logits")
          .to_doubles();
    };
    expect_alike({step(cuda)}, {step(cpu)}, tolerance_of(dtype));
  }
}

TEST_F(CacheRows, MoreThanTheCacheHoldsIsAnError) {
  Session session(made_model({}, DType::bf16, 2), {.device = "cuda"});
  const auto before = run(session, {5, 9}, 2);
  expect_error(
      [&] {
        session.run("decode", {{"tokens", Tensor::of<int64_t>({2, 1}, {1, 2})},
                               {"position", Tensor::of<int64_t>({2}, {3, kPositions})}});
      },
      {std::to_string(kPositions)});
  expect_error(
      [&] {
        session.run("prefill", {{"tokens", Tensor::of<int64_t>({2, 4}, Tokens(8, 1))},
                                {"position", Tensor::of<int64_t>({2}, {0, kPositions - 3})},
                                {"length", Tensor::of<int64_t>({2}, {4, 4})}});
      },
      {std::to_string(kPositions - 3)});
  EXPECT_EQ(run(session, {5, 9}, 2), before);
}

}  // namespace
}  // namespace genesis
