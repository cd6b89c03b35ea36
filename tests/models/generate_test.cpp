// Tests generation against the plain algorithm: run `forward` on the whole text so far and take the likeliest token.
#include "models/generation/generator.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/zoo.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

std::shared_ptr<Model> small(const std::string& name, int64_t positions = 24) {
  const std::string length = std::to_string(positions);
  if (name == "gpt2")
    return models::make_model(name,
                              {{"vocab_size", "37"},
                               {"n_embd", "32"},
                               {"n_layer", "2"},
                               {"n_head", "2"},
                               {"n_positions", length},
                               {"initializer_range", "0.3"}},
                              3);
  return models::make_model(name,
                            {{"vocab_size", "37"},
                             {"hidden_size", "32"},
                             {"intermediate_size", "48"},
                             {"num_hidden_layers", "2"},
                             {"num_attention_heads", "4"},
                             {"num_key_value_heads", "2"},
                             {"max_position_embeddings", length},
                             {"initializer_range", "0.3"}},
                            3);
}

Tokens greedy_by_forward(Session& session, Tokens text, int64_t count) {
  Tokens made;
  for (int64_t i = 0; i < count; ++i) {
    const auto size = static_cast<int64_t>(text.size());
    const Tensor logits =
        session.run("forward", {{"tokens", Tensor::of<int64_t>({1, size}, text)}}).at("logits");
    const auto all = logits.as<float>();
    const auto last = all.subspan(all.size() - 37);
    made.push_back(std::max_element(last.begin(), last.end()) - last.begin());
    text.push_back(made.back());
  }
  return made;
}

class Generate : public ::testing::TestWithParam<std::string> {};

TEST_P(Generate, GreedyDecodeIsTheArgmaxOfForward) {
  Session session = open_for_generation(small(GetParam()));
  const Tokens prompt = {5, 1, 36, 0, 7};
  const Tokens expected = greedy_by_forward(session, prompt, 19);
  const GenerateResult result = generate(session, prompt, {.max_tokens = 19, .temperature = 0});
  EXPECT_EQ(result.tokens, expected);
  EXPECT_EQ(result.stop_reason, StopReason::kMaxTokens);
  EXPECT_GT(std::set<int64_t>(expected.begin(), expected.end()).size(), 2u) << "a constant text tests little";
  // A second text starts from the beginning, and top_k = 1 leaves only the likeliest token at any temperature.
  EXPECT_EQ(generate(session, prompt, {.max_tokens = 19, .temperature = 5, .top_k = 1, .seed = 9}).tokens,
            expected);
  const Tokens other = {2};
  EXPECT_EQ(generate(session, other, {.max_tokens = 5, .temperature = 0}).tokens,
            greedy_by_forward(session, other, 5));
  EXPECT_EQ(generate(session, prompt, {.max_tokens = 4, .temperature = 1, .top_p = 1e-6}).tokens,
            Tokens(expected.begin(), expected.begin() + 4));
}

INSTANTIATE_TEST_SUITE_P(Models, Generate, ::testing::Values("gpt2", "qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST(Generation, TheSeedDecides) {
  Session session = open_for_generation(small("qwen2"));
  const auto sampled = [&](uint64_t seed) {
    return generate(session, {1, 2}, {.max_tokens = 12, .seed = seed}).tokens;
  };
  const Tokens first = sampled(1);
  EXPECT_EQ(first.size(), 12u);
  EXPECT_EQ(sampled(1), first);
  EXPECT_NE(sampled(2), first);
  for (int64_t token : first) EXPECT_TRUE(token >= 0 && token < 37);
}

TEST(Generation, StopsWhenTheCacheIsFull) {
  Session session = open_for_generation(small("qwen2", 8));
  const Tokens prompt = {1, 2, 3, 4, 5};
  const GenerateResult result = generate(session, prompt, {.max_tokens = 100, .temperature = 0});
  EXPECT_EQ(result.stop_reason, StopReason::kCacheFull);
  EXPECT_EQ(result.tokens,
            greedy_by_forward(session, prompt, 4));  // three go into the cache, the last does not
  const GenerateResult full =
      generate(session, {1, 2, 3, 4, 5, 6, 7, 0}, {.max_tokens = 2, .temperature = 0});
  EXPECT_EQ(full.tokens.size(), 1u);
  EXPECT_EQ(full.stop_reason, StopReason::kCacheFull);
}

TEST(Generation, TheCallerMayEndIt) {
  Session session = open_for_generation(small("gpt2"));
  Tokens seen;
  const auto stop_at_three = [&](const Piece& piece) { return seen.push_back(piece.token), seen.size() < 3; };
  const GenerateResult result = generate(session, {1}, {.max_tokens = 10, .temperature = 0}, stop_at_three);
  EXPECT_EQ(result.tokens.size(), 3u);
  EXPECT_EQ(seen, result.tokens);
  EXPECT_TRUE(generate(session, {1}, {.max_tokens = 0}).tokens.empty());
}

TEST(Generation, MistakesAreNamed) {
  Session session = open_for_generation(small("gpt2", 8));
  expect_error([&] { generate(session, {}, {}); }, {"prompt is empty"});
  expect_error([&] { generate(session, Tokens(9, 1), {}); }, {"9 tokens", "holds 8"});
  expect_error([&] { generate(session, {1}, {.temperature = -1}); }, {"temperature is -1"});
  expect_error([&] { generate(session, {1}, {.temperature = std::nan("")}); }, {"temperature is nan"});
  expect_error([&] { generate(session, {1}, {.max_tokens = -1}); }, {"max_tokens is -1"});
  expect_error([&] { generate(session, {1}, {.top_k = -1}); }, {"top_k is -1"});
  for (double p : {0.0, 1.5, std::nan("")})
    expect_error([&] { generate(session, {1}, {.top_p = p}); }, {"top_p"});
  expect_error([&] { generate(session, {1, 37}, {}); }, {"token 37", "place 1", "vocabulary of 37"});
  EXPECT_EQ(generate(session, {1}, {.max_tokens = 3}).tokens.size(), 3u);
  const std::shared_ptr<const Model> mlp = models::make_model("mlp", {});
  expect_error([&] { open_for_generation(mlp); }, {"'decode'", "cannot generate"});
  Session plain(mlp);
  expect_error([&] { generate(plain, {1}, {}); }, {"open_for_generation"});
}

TEST(Bytes, EveryByteComesBack) {
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
  const Tokens tokens = encode_bytes(text);
  EXPECT_EQ(tokens[200], 200);
  EXPECT_EQ(decode_bytes(tokens), text);
}

}  // namespace
}  // namespace genesis::text
