// Tests decoding on a GPU, where kernels start before their predecessors have ended: token by token against the CPU,
// with the same bits in every run, for every implementation of a layer. Skipped without a GPU.
#include <fmt/format.h>

#include <cmath>
#include <thread>

#include "executor/inspector.h"
#include "executor/session.h"
#include "models/zoo.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "tests/cuda/on_gpu.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Logits = std::vector<std::vector<double>>;  // by token

using Decode = OnGpu;

constexpr int64_t kVocabulary = 1000, kPositions = 1024;

// Heads of 64, three query heads per key head, and sizes that are not multiples of what a block takes.
std::shared_ptr<const Model> made_model(const std::string& kind, DType dtype,
                                        const std::string& intermediate = "1000",
                                        const std::string& head_size = "64") {
  std::map<std::string, std::string> settings;
  if (kind == "gpt2")
    settings = {{"n_embd", "192"}, {"n_layer", "3"}, {"n_head", "3"}, {"n_positions", "1024"}};
  else
    settings = {{"hidden_size", "384"},       {"intermediate_size", intermediate},
                {"num_hidden_layers", "3"},   {"num_attention_heads", "6"},
                {"num_key_value_heads", "2"}, {"max_position_embeddings", "1024"},
                {"head_dim", head_size}};
  settings["vocab_size"] = std::to_string(kVocabulary);
  const std::shared_ptr<Model> made = models::make_model(kind, settings);
  if (dtype == DType::f32) return made;
  return passes::cast_precision(*made, dtype);
}

// A mixture of experts of sizes that a megakernel takes.
struct MixtureCase {
  std::string kind, chosen, experts;
  WeightFormat format = WeightFormat::kPlain;
  std::string hidden = "384", intermediate = "256";
};

std::shared_ptr<const Model> made_mixture(const MixtureCase& c) {
  const bool is_mixtral = c.kind == "mixtral";
  const std::map<std::string, std::string> settings = {
      {"hidden_size", c.hidden},
      {is_mixtral ? "intermediate_size" : "moe_intermediate_size", c.intermediate},
      {"num_hidden_layers", "3"},
      {"num_attention_heads", "6"},
      {"num_key_value_heads", "2"},
      {"max_position_embeddings", "1024"},
      {"head_dim", "64"},
      {"num_experts", c.experts},
      {"num_experts_per_tok", c.chosen},
      {"initializer_range", "0.05"},
      {"dtype", "bf16"},
      {"vocab_size", std::to_string(kVocabulary)}};
  auto model = models::make_model(c.kind, settings);
  if (c.format != WeightFormat::kPlain)
    passes::quantize(*model, {.format = c.format, .embedding = false, .head = true});
  return model;
}

// Returns the logits of `tokens` tokens decoded after a prompt of `prompt` tokens.
Logits decode(Session& session, int64_t prompt, int64_t tokens) {
  const auto token = [](int64_t i) { return (i * 37 + 11) % kVocabulary; };
  std::vector<int64_t> text;
  for (int64_t i = 0; i < prompt; ++i) text.push_back(token(i));
  if (prompt > 0)
    session.run("prefill", {{"tokens", Tensor::of<int64_t>({1, prompt}, text)},
                            {"position", Tensor::of<int64_t>({1}, {0})},
                            {"length", Tensor::of<int64_t>({1}, {prompt})}});
  Logits all;
  for (int64_t i = prompt; i < prompt + tokens; ++i)
    all.push_back(session
                      .run("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {token(i)})},
                                      {"position", Tensor::of<int64_t>({1}, {i})}})
                      .at("logits")
                      .to_doubles());
  return all;
}

void expect_alike(const Logits& got, const Logits& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double size = 0;
    for (double x : expected[i]) size = std::max(size, std::abs(x));
    for (size_t j = 0; j < got[i].size(); ++j)
      ASSERT_NEAR(got[i][j], expected[i][j], tolerance * size) << "token " << i << ", logit " << j;
  }
}

// Returns how many tokens have a logit that differs by more than `tolerance` of the largest one.
int64_t tokens_apart(const Logits& got, const Logits& expected, double tolerance) {
  int64_t apart = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    double size = 0, difference = 0;
    for (size_t j = 0; j < expected[i].size(); ++j) {
      size = std::max(size, std::abs(expected[i][j]));
      difference = std::max(difference, std::abs(got[i].at(j) - expected[i][j]));
    }
    apart += !(difference <= tolerance * size);
  }
  return apart;
}

// bf16 has 8 bits, and both implementations round between layers.
double tolerance_of(DType dtype) { return dtype == DType::f32 ? 1e-4 : 0.05; }

TEST_F(Decode, EveryTokenIsTheCpus) {
  for (const char* kind : {"qwen2", "qwen3", "gpt2"})
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(std::string(kind) + " " + std::string(name_of(dtype)));
      Session cpu(made_model(kind, dtype)), cuda(made_model(kind, dtype), {.device = "cuda"});
      expect_alike(decode(cuda, 0, 20), decode(cpu, 0, 20), tolerance_of(dtype));
    }
}

// At these positions several splits share the keys.
TEST_F(Decode, FarPositionsAreTheCpus) {
  for (int64_t prompt : {120, 250, 1000}) {
    SCOPED_TRACE(prompt);
    Session cpu(made_model("qwen2", DType::bf16)), cuda(made_model("qwen2", DType::bf16), {.device = "cuda"});
    expect_alike(decode(cuda, prompt, 12), decode(cpu, prompt, 12), tolerance_of(DType::bf16));
  }
}

// All reduction lengths are whole blocks, so that one kernel runs all layers. At position 1000 the keys are split.
TEST_F(Decode, OneKernelForAllLayersIsTheCpus) {
  const DType dtype = DType::bf16;
  for (const char* kind : {"qwen2", "qwen3"})
    for (const char* head_size : {"64", "128", "32"})  // heads of 32 use an attention outside the megakernel
      for (int64_t prompt : {0, 120, 1000}) {
        SCOPED_TRACE(fmt::format("{} with heads of {} after {}", kind, head_size, prompt));
        const auto whole = made_model(kind, dtype, "992", head_size);
        Session cpu(whole), cuda(whole, {.device = "cuda"}),
            one_by_one(whole, {.device = "cuda", .disabled = {"megakernel"}});
        const Logits got = decode(cuda, prompt, 12);
        expect_alike(got, decode(cpu, prompt, 12), tolerance_of(dtype));
        expect_alike(got, decode(one_by_one, prompt, 12), tolerance_of(dtype));
        for (int i = 0; i < 5; ++i) ASSERT_EQ(decode(cuda, prompt, 12), got) << "run " << i;
      }
}

// Covers scales of one row and of two rows, and rows that are copied in several chunks.
TEST_F(Decode, OneKernelForPackedWeightsIsTheCpus) {
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m})
    for (const char* intermediate : {"896", "1024", "16384"}) {
      SCOPED_TRACE(fmt::format("{} and {}", EnumNames<WeightFormat>::names[static_cast<size_t>(format)],
                               intermediate));
      const auto packed = std::make_shared<Model>(*made_model("qwen2", DType::bf16, intermediate));
      passes::quantize(*packed, {.format = format, .embedding = false, .head = true});
      Session cpu(packed), cuda(packed, {.device = "cuda"}),
          one_by_one(packed, {.device = "cuda", .disabled = {"megakernel"}});
      const auto kernels = Inspector(cuda).kernels("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {0})},
                                                              {"position", Tensor::of<int64_t>({1}, {0})}});
      EXPECT_GE(std::count(kernels.begin(), kernels.end(), "megakernel"), 3 * 5);
      const Logits got = decode(cuda, 0, 12);
      expect_alike(got, decode(cpu, 0, 12), tolerance_of(DType::bf16));
      expect_alike(got, decode(one_by_one, 0, 12), tolerance_of(DType::bf16));
      for (int i = 0; i < 5; ++i) ASSERT_EQ(decode(cuda, 0, 12), got) << "run " << i;
    }
}

void expect_one_kernel_is_the_separate_kernels(const MixtureCase& c) {
  SCOPED_TRACE(fmt::format("{} {} of {} {}, {} wide", c.kind, c.chosen, c.experts,
                           EnumNames<WeightFormat>::names[static_cast<size_t>(c.format)], c.hidden));
  const auto mixed = made_mixture(c);
  Session cuda(mixed, {.device = "cuda"}), one_by_one(mixed, {.device = "cuda", .disabled = {"megakernel"}});
  const auto kernels = Inspector(cuda).kernels("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {0})},
                                                          {"position", Tensor::of<int64_t>({1}, {0})}});
  EXPECT_GE(std::count(kernels.begin(), kernels.end(), "megakernel"), 3 * 7);
  const Logits got = decode(cuda, 100, 12);
  // Packed weights take x in bytes, which both round elsewhere, so that close scores may choose another expert: on a CPU, products
  // with x in bytes and without differ by more than 5% in 1 to 9 of 100 tokens of these models, and by 60% at most.
  EXPECT_LE(tokens_apart(got, decode(one_by_one, 100, 12), 0.05), c.format == WeightFormat::kPlain ? 0 : 3);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(decode(cuda, 100, 12), got) << "run " << i;
}

// The experts of a token are chosen in the kernel: by softmax of all scores, 1, 2, 4 or 8 of a token.
TEST_F(Decode, OneKernelForMixturesIsTheSeparateKernels) {
  const MixtureCase cases[] = {
      {"qwen3_moe", "8", "160", WeightFormat::kPlain}, {"qwen3_moe", "8", "160", WeightFormat::kQ8},
      {"qwen3_moe", "8", "16", WeightFormat::kQ4},     {"qwen3_moe", "4", "16", WeightFormat::kQ4m},
      {"qwen3_moe", "1", "4", WeightFormat::kPlain},   {"mixtral", "2", "8", WeightFormat::kPlain},
      {"mixtral", "2", "8", WeightFormat::kQ4}};
  for (const MixtureCase& c : cases) expect_one_kernel_is_the_separate_kernels(c);
}

// Rows of so many elements are copied in several ranges of k; those of a router are whole.
TEST_F(Decode, OneKernelForWideMixturesIsTheSeparateKernels) {
  const MixtureCase cases[] = {{"qwen3_moe", "8", "128", WeightFormat::kPlain, "4096", "32"},
                               {"qwen3_moe", "8", "16", WeightFormat::kQ8, "5120", "256"},
                               {"mixtral", "2", "8", WeightFormat::kPlain, "7168", "160"}};
  for (const MixtureCase& c : cases) expect_one_kernel_is_the_separate_kernels(c);
}

TEST_F(Decode, TwoSessionsDecodeAtOnce) {
  const auto whole = made_model("qwen2", DType::bf16, "992");
  Session sessions[] = {Session(whole, {.device = "cuda"}), Session(whole, {.device = "cuda"})};
  const Logits expected = decode(sessions[0], 100, 200);
  Logits got[2];
  std::thread other([&] { got[1] = decode(sessions[1], 100, 200); });
  got[0] = decode(sessions[0], 100, 200);
  other.join();
  EXPECT_EQ(got[0], expected);
  EXPECT_EQ(got[1], expected);
}

TEST_F(Decode, EveryRunHasTheSameBits) {
  Session session(made_model("qwen2", DType::bf16), {.device = "cuda"});
  const Logits first = decode(session, 300, 20);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(decode(session, 300, 20), first) << "run " << i;
}

TEST_F(Decode, EveryWayToComputeALayerAgrees) {
  Session all(made_model("qwen2", DType::f32), {.device = "cuda"});
  const Logits expected = decode(all, 140, 8);
  for (const char* disabled : {"fuse_cached_attention", "fuse_norm_linear", "fuse_addend", "merge_linear",
                               "fuse_elementwise", "in_place", "memory_reuse"}) {
    SCOPED_TRACE(disabled);
    Session session(made_model("qwen2", DType::f32), {.device = "cuda", .disabled = {disabled}});
    const Logits got = decode(session, 140, 8);
    expect_alike(got, expected, tolerance_of(DType::f32));
    EXPECT_EQ(decode(session, 140, 8), got) << "two runs differ";
  }
}

TEST_F(Decode, APositionOutsideTheCacheIsAnError) {
  Session session(made_model("qwen2", DType::bf16), {.device = "cuda"});
  const Logits before = decode(session, 0, 2);
  expect_error(
      [&] {
        session.run("decode", {{"tokens", Tensor::of<int64_t>({1, 1}, {1})},
                               {"position", Tensor::of<int64_t>({1}, {kPositions})}});
      },
      {"1024"});
  EXPECT_EQ(decode(session, 0, 2), before);
}

}  // namespace
}  // namespace genesis
