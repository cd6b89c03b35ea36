// Tests the choice of a token against transformers' logits processors: the tokens that remain (sampling.json, made by
// make_sampling.py), and that they are drawn with their probabilities.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "builder/genesis.h"
#include "executor/generation/logit_bias.h"
#include "models/generation/generator.h"
#include "models/generation/penalties.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/typical.h"
#include "models/zoo.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using nlohmann::json;
using Named = std::vector<std::pair<std::string, Value>>;

const json& expected() {
  static const json all = [] {
    return parse_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/generation/sampling.json"));
  }();
  return all;
}

// Returns the same logits as make_sampling.py.
std::vector<float> logits_of(int64_t vocab, int64_t seed, bool masked) {
  std::vector<float> x;
  for (int64_t i = 0; i < vocab; ++i) {
    const bool is_masked = masked && i % 5 == 3;
    x.push_back(is_masked ? -std::numeric_limits<float>::infinity()
                          : static_cast<float>((i * 7919 + seed * 104729) % 10007 - 5003) / 1024);
  }
  return x;
}

// Returns how often each token was drawn in `rows` draws.
std::vector<double> counts_of(const std::vector<float>& logits, int64_t rows, const SampleOptions& options) {
  std::vector<float> all;
  for (int64_t i = 0; i < rows; ++i) all.insert(all.end(), logits.begin(), logits.end());
  const auto size = static_cast<int64_t>(logits.size());
  const auto results =
      run_graph({{"rng", Tensor::of<int64_t>({2}, {77, 5})},
                 {"logits", Tensor::of<float>({rows, size}, all)},
                 {"temperature", Tensor::scalar(static_cast<float>(options.temperature))},
                 {"top_k", Tensor::scalar(options.top_k)},
                 {"top_p", Tensor::scalar(static_cast<float>(options.top_p))},
                 {"min_p", Tensor::scalar(static_cast<float>(options.min_p))}},
                [&](const Inputs& in) {
                  return Named{{"fixed", sample_logits(in[0], in[1], options)},
                               {"data", sample_logits(in[0], in[1], in[2], in[3], in[4], in[5])}};
                });
  std::vector<double> counts(logits.size(), 0);
  for (const char* name : {"fixed", "data"})  // separate random streams
    for (const double token : results.at(name).to_doubles()) ++counts[static_cast<size_t>(token)];
  return counts;
}

std::vector<double> probabilities_of(const json& c, const std::vector<float>& logits) {
  std::vector<double> p(logits.size(), 0);
  double sum = 0;
  const double temperature = c.value("temperature", 1.0);
  for (size_t i = 0; i < p.size(); ++i) {
    const auto& kept = c["kept"];
    if (kept.is_array() && std::find(kept.begin(), kept.end(), i) == kept.end()) continue;
    sum += p[i] = std::exp(static_cast<double>(logits[i]) / temperature);
  }
  for (double& each : p) each /= sum;
  return p;
}

// Checks Pearson's statistic over the tokens, with tokens expected less than five times counted as one. A value five
// standard deviations above its mean occurs once in a million.
void expect_distributed(const std::vector<double>& counts, const std::vector<double>& p) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  double statistic = 0, rare_expected = 0, rare_counted = 0, bins = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * draws;
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " is left out";
    }
    if (expected < 5) {
      rare_expected += expected, rare_counted += counts[i];
      continue;
    }
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++bins;
  }
  if (rare_expected > 5) {
    statistic += (rare_counted - rare_expected) * (rare_counted - rare_expected) / rare_expected;
    ++bins;
  }
  EXPECT_LT(statistic, bins - 1 + 5 * std::sqrt(2 * bins)) << bins << " bins";
}

TEST(Sampling, ChoosesAmongWhatTransformersLeaves) {
  for (const json& c : expected()["sampling"]) {
    SCOPED_TRACE(c.dump().substr(0, 80));
    const auto logits = logits_of(c["vocab"], c["seed"], c["masked"]);
    const auto p = probabilities_of(c, logits);
    const SampleOptions options = {c.value("temperature", 1.0), c.value("top_k", int64_t{0}),
                                   c.value("top_p", 1.0), c.value("min_p", 0.0)};
    expect_distributed(counts_of(logits, c["vocab"] > 1000 ? 1000 : 4000, options), p);
    if (!c.contains("probabilities")) continue;
    std::vector<double> kept;
    for (const double each : p)
      if (each > 0) kept.push_back(each);
    const std::vector<double> theirs = c["probabilities"];
    ASSERT_EQ(kept.size(), theirs.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_NEAR(kept[i], theirs[i], 2e-6);
  }
}

TEST(Sampling, TypicalLeavesWhatTransformersLeaves) {
  for (const json& c : expected()["typical"]) {
    SCOPED_TRACE(c.dump().substr(0, 80));
    const int64_t vocab = c["vocab"];
    const std::vector<float> logits = logits_of(vocab, c["seed"], c["masked"]);
    std::vector<float> both = logits;
    both.insert(both.end(), logits.begin(), logits.end());
    const float temperature = c["temperature"];
    const auto got = run_graph({{"logits", Tensor::of<float>({2, vocab}, both)},
                                {"temperature", Tensor::of<float>({2}, {temperature, temperature})},
                                {"mass", Tensor::of<float>({2}, {c["typical_p"], 1})}},
                               [](const Inputs& in) {
                                 return Named{{"y", typical(in[0], in[1], in[2])}};
                               })
                         .at("y")
                         .to_doubles();
    for (int64_t i = 0; i < vocab; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto& kept = c["kept"];
      const bool is_kept = !kept.is_array() || std::find(kept.begin(), kept.end(), i) != kept.end();
      EXPECT_EQ(got[at], is_kept ? logits[at] : -std::numeric_limits<float>::infinity()) << i;
      EXPECT_EQ(got[at + logits.size()], logits[at]) << "a mass of 1 leaves all";
    }
  }
}

// A very small typical_p leaves one token, whatever the seed, and does not concern the text beside it.
TEST(Sampling, TypicalIsAnOptionOfEachText) {
  const std::shared_ptr<const Model> model = models::make_model("qwen2", {{"hidden_size", "16"},
                                                                          {"intermediate_size", "24"},
                                                                          {"num_hidden_layers", "1"},
                                                                          {"num_attention_heads", "2"},
                                                                          {"num_key_value_heads", "1"},
                                                                          {"vocab_size", "61"},
                                                                          {"initializer_range", "0.3"},
                                                                          {"max_position_embeddings", "24"}});
  const auto texts = [&](int64_t rows, uint64_t seed, double typical_p) {
    Session session = open_for_generation(models::with_cache(*model, rows, 24), {.threads = 1});
    GenerateOptions plain = {.max_tokens = 8, .temperature = 1.5, .seed = seed}, other = plain;
    other.typical_p = typical_p;
    const std::vector<Request> requests = {{{5, 1, 36}, other}, {{22, 9}, plain}};
    return Generator(session).generate_all(requests);
  };
  const auto alone = texts(1, 1, 1e-6), beside = texts(2, 1, 1e-6), reseeded = texts(1, 2, 1e-6),
             off = texts(1, 1, 1);
  EXPECT_EQ(alone[0].tokens, reseeded[0].tokens);
  EXPECT_NE(alone[1].tokens, reseeded[1].tokens);
  EXPECT_EQ(alone[1].tokens, off[1].tokens);
  EXPECT_NE(alone[0].tokens, off[0].tokens);
  for (const size_t i : {0, 1}) EXPECT_EQ(alone[i].tokens, beside[i].tokens) << i;
}

TEST(Sampling, PenaltiesAreThoseOfTransformersAndOpenAI) {
  for (const json& c : expected()["penalties"]) {
    std::vector<int32_t> in_prompt(37, 0), chosen(37, 0);
    for (const size_t token : c["prompt"].get<std::vector<size_t>>()) ++in_prompt[token];
    for (const size_t token : c["chosen"].get<std::vector<size_t>>()) ++chosen[token];
    std::vector<float> bias(37, 0);
    for (const auto& [token, value] : c["bias"].get<std::vector<std::pair<size_t, float>>>())
      bias[token] += value;
    const auto result =
        run_graph(
            {{"logits", Tensor::of<float>({1, 37}, logits_of(37, c["seed"], false))},
             {"bias", Tensor::of<float>({1, 37}, bias)},
             {"in_prompt", Tensor::of<int32_t>({1, 37}, in_prompt)},
             {"chosen", Tensor::of<int32_t>({1, 37}, chosen)},
             {"penalties", Tensor::of<float>({3, 1}, {c["repetition"], c["presence"], c["frequency"]})}},
            [](const Inputs& in) {
              return Named{{"y", penalized(in[0], in[1], in[2], in[3], in[4])}};
            })
            .at("y")
            .to_doubles();
    const std::vector<double> theirs = c["logits"];
    for (size_t i = 0; i < theirs.size(); ++i) EXPECT_NEAR(result[i], theirs[i], 1e-5) << i;
  }
}

generation::SamplingOptions options_in(const json& settings) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  generation::SamplingOptions options = {
      .no_repeat_ngram_size = settings.value("no_repeat_ngram_size", int64_t{0}),
      .min_tokens = settings.value("min_new_tokens", int64_t{0}),
      .stop_tokens = {30, 31}};
  for (const json& each : settings.value("sequence_bias", json::array()))
    options.logit_bias.push_back({each[0], each[1]});
  for (const json& each : settings.value("bad_words_ids", json::array()))
    if (each != json::array({30})) options.logit_bias.push_back({each, kNever});  // no end tokens
  for (const json& each : settings.value("suppress_tokens", json::array()))
    options.logit_bias.push_back({{each}, kNever});
  return options;
}

TEST(Sampling, BiasesAreThoseOfTransformers) {
  ASSERT_GE(expected()["biases"].size(), 10u);
  for (const json& c : expected()["biases"]) {
    SCOPED_TRACE(c["settings"].dump());
    std::vector<int64_t> text = c["prompt"];
    const std::vector<int64_t> chosen = c["chosen"];
    text.insert(text.end(), chosen.begin(), chosen.end());
    std::vector<float> bias(37, 0);
    generation::add_logit_bias(options_in(c["settings"]), text, std::ssize(chosen), bias);
    for (size_t i = 0; i < bias.size(); ++i) {
      if (c["bias"][i].is_null())
        EXPECT_EQ(bias[i], -std::numeric_limits<float>::infinity()) << i;
      else
        EXPECT_FLOAT_EQ(bias[i], c["bias"][i].get<float>()) << i;
    }
  }
}

TEST(Sampling, MinPTakesEdgesAsTheyStand) {
  // Equal logits are kept together, and p of 1 or more leaves only the likeliest.
  const std::vector<float> logits = {1, 3, 3, 2, -1};
  const auto counts = [&](double min_p) { return counts_of(logits, 2000, {.min_p = min_p}); };
  for (const double p : {1.0, 7.0}) {
    const auto two = counts(p);
    EXPECT_GT(two[1], 1500);
    EXPECT_GT(two[2], 1500);
    EXPECT_EQ(two[0] + two[3] + two[4], 0);
  }
  EXPECT_EQ(counts(0.3)[0], 0);
  EXPECT_GT(counts(0.3)[3], 0);
  EXPECT_GT(counts(1e-9)[4], 0);
}

TEST(Sampling, ANanIsAnError) {
  for (const double temperature : {0.0, 1.0})
    for (const size_t place : {size_t{0}, size_t{3}, size_t{150000}}) {
      std::vector<float> logits(150001, 0.5f);
      logits[place] = std::nanf("");
      expect_error([&] { counts_of(logits, 1, {.temperature = temperature}); },
                   {"sample_logits", "not a number"});
    }
}

}  // namespace
}  // namespace genesis::text
