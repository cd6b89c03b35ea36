// Tests that tokens are chosen by logits in f32 also if weights have fewer bits. Rounded to 16 bits, close logits
// would tie and the lower token would win. The model is small enough that most of its steps have such ties.
#include <algorithm>
#include <cmath>

#include "models/generation/generator.h"
#include "models/zoo.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 4000;

std::shared_ptr<Model> crowded(const std::string& kind, const std::string& dtype) {
  std::map<std::string, std::string> settings = {
      {"vocab_size", std::to_string(kVocabulary)}, {"dtype", dtype}, {"initializer_range", "0.3"}};
  if (kind == "gpt2")
    settings.merge(std::map<std::string, std::string>{
        {"n_embd", "32"}, {"n_layer", "1"}, {"n_head", "2"}, {"n_positions", "64"}});
  else
    settings.merge(std::map<std::string, std::string>{{"hidden_size", "32"},
                                                      {"intermediate_size", "64"},
                                                      {"num_hidden_layers", "1"},
                                                      {"num_attention_heads", "2"},
                                                      {"num_key_value_heads", "1"},
                                                      {"tie_word_embeddings", "false"},
                                                      {"max_position_embeddings", "64"}});
  return models::make_model(kind, settings, 3);
}

struct Chosen {
  Tokens best;                  // by the unrounded logits
  int64_t ties_in_16_bits = 0;  // texts whose best logit, after rounding, equals another token's
};

// Returns the token after each of many one-token texts, by the logits of `prefill`.
Chosen best_tokens(Session& session, const Tokens& texts, DType low) {
  Chosen chosen;
  for (const int64_t text : texts) {
    const Tensor logits = session
                              .run("prefill", {{"tokens", Tensor::of<int64_t>({1, 1}, {text})},
                                               {"position", Tensor::of<int64_t>({1}, {0})},
                                               {"length", Tensor::of<int64_t>({1}, {1})}})
                              .at("logits");
    EXPECT_EQ(logits.type().dtype, DType::f32);
    const std::vector<double> exact = logits.to_doubles(), rounded = logits.to(low).to_doubles();
    const auto best = std::max_element(exact.begin(), exact.end()) - exact.begin();
    chosen.best.push_back(best);
    const double greatest = *std::max_element(rounded.begin(), rounded.end());
    if (std::find(rounded.begin(), rounded.end(), greatest) - rounded.begin() != best)
      ++chosen.ties_in_16_bits;
  }
  return chosen;
}

Tokens generated(const std::shared_ptr<const Model>& model, const Tokens& texts) {
  Session session = open_for_generation(model, {.threads = 2});
  Generator generator(session);
  Tokens tokens;
  for (const int64_t text : texts) {
    generator.rewind(0);
    tokens.push_back(generator.continue_with({text}, {.max_tokens = 1, .temperature = 0}).tokens.at(0));
  }
  return tokens;
}

Tokens some_texts() {
  Tokens texts;
  for (int64_t i = 0; i < 200; ++i) texts.push_back(i * 61 % kVocabulary);
  return texts;
}

void expect_exact_choice(const std::shared_ptr<const Model>& model, DType low) {
  Session session(model, {.threads = 2});
  const Tokens texts = some_texts();
  const Chosen chosen = best_tokens(session, texts, low);
  EXPECT_GT(chosen.ties_in_16_bits, 0) << "nothing here would differ if logits were rounded";
  EXPECT_EQ(generated(model, texts), chosen.best);
}

TEST(NearTies, AreDecidedByF32) {
  for (const char* kind : {"qwen2", "gpt2"}) {
    SCOPED_TRACE(kind);
    expect_exact_choice(crowded(kind, "bf16"), DType::bf16);
    expect_exact_choice(passes::cast_precision(*crowded(kind, "f32"), DType::bf16), DType::bf16);
  }
}

TEST(NearTies, AreDecidedByF32WithQuantizedWeights) {
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4}) {
    const auto model = crowded("qwen2", "bf16");
    passes::quantize(*model, {.format = format, .embedding = true, .head = true});
    expect_exact_choice(model, DType::bf16);
  }
}

// Files of earlier versions have a head that rounds, with or without a cast after it.
TEST(NearTies, AreDecidedByF32InOlderFiles) {
  const auto model = crowded("qwen2", "bf16");
  const Tokens texts = some_texts();
  Session exact(model, {.threads = 2});
  const Chosen chosen = best_tokens(exact, texts, DType::bf16);
  Model older(*model);
  for (const char* entry : {"prefill", "decode"})
    older.replace_entry(passes::rewrite(
        older.entry(entry), [](passes::Rewriter& rewriter, const Node& node) -> passes::Replacement {
          auto layer = passes::match<ops::Linear>(node);
          if (!layer || !layer->wide) return std::nullopt;
          layer.attributes.wide = false;
          return emit_node(layer.attributes, rewriter.map(node.inputs));
        }));
  EXPECT_EQ(older.entry("decode").type(older.entry("decode").outputs()[0].value).dtype, DType::bf16);
  EXPECT_EQ(generated(std::make_shared<Model>(older), texts), chosen.best);
}

std::vector<double> logits_of(Session& session) {
  const Tensor tokens = Tensor::of<int64_t>({1, 24}, Tokens(24, 5));
  return session.run("forward", {{"tokens", tokens}}).at("logits").to_doubles();
}

double root_mean_square_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] - b[i], 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

// The residual stream is rounded at every layer unless it is f32, and no other rounding counts as much.
TEST(NearTies, TheResidualStreamOfABf16ModelIsNotRounded) {
  std::map<std::string, std::string> deep = {{"vocab_size", "500"},        {"hidden_size", "64"},
                                             {"intermediate_size", "128"}, {"num_hidden_layers", "24"},
                                             {"num_attention_heads", "2"}, {"num_key_value_heads", "1"},
                                             {"initializer_range", "0.1"}};
  const std::shared_ptr<const Model> exact_model = models::make_model("qwen2", deep, 3);
  deep["dtype"] = "bf16";
  const std::shared_ptr<const Model> model = models::make_model("qwen2", deep, 3);
  Session exact(exact_model, {.threads = 2}), wide(model, {.threads = 2}),
      narrow(model, {.threads = 2, .disabled = {"widen_sums"}});
  for (const State& state : model->states())
    if (state.role == StateRole::kParameter) exact.set_state(state.name, state.initial.to(DType::f32));
  const std::vector<double> logits = logits_of(exact);
  const double of_wide = root_mean_square_difference(logits_of(wide), logits),
               of_narrow = root_mean_square_difference(logits_of(narrow), logits);
  EXPECT_LT(of_wide, 0.75 * of_narrow);
}

}  // namespace
}  // namespace genesis::text
