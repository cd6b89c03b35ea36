// Tests how a Generator continues a text, against texts generated at once and against `forward` on the whole text.
#include "models/generation/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "models/zoo.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 37;

std::shared_ptr<const Model> small(int64_t positions = 64) {
  return models::make_model("qwen2",
                            {{"vocab_size", std::to_string(kVocabulary)},
                             {"hidden_size", "32"},
                             {"intermediate_size", "48"},
                             {"num_hidden_layers", "2"},
                             {"num_attention_heads", "4"},
                             {"num_key_value_heads", "2"},
                             {"max_position_embeddings", std::to_string(positions)},
                             {"initializer_range", "0.3"}},
                            3);
}

// Every token is one or two letters.
TokenText letters() {
  return {.add =
              [](int64_t token) {
                std::string text(1, static_cast<char>('a' + token % 26));
                return token < 26 ? text : text + "!";
              },
          .finish = [] { return std::string("."); }};
}

std::string text_of(const Tokens& tokens) {
  std::string text;
  for (int64_t token : tokens) text += letters().add(token);
  return text;
}

struct Texts {
  std::shared_ptr<const Model> model;
  Session session;
  Generator generator;
  explicit Texts(GeneratorOptions options = {}, int64_t positions = 64)
      : model(small(positions)),
        session(open_for_generation(model, {.threads = 2})),
        generator(session, std::move(options)) {}
};

// Returns the logits of the next token, from `forward`.
std::vector<double> next_logits(Session& session, const Tokens& text) {
  const auto logits =
      session.run("forward", {{"tokens", Tensor::of<int64_t>({1, static_cast<int64_t>(text.size())}, text)}})
          .at("logits")
          .to_doubles();
  return {logits.end() - kVocabulary, logits.end()};
}

const GenerateOptions kSampled = {.max_tokens = 20, .temperature = 1.3, .seed = 7};
const GenerateOptions kGreedy = {.max_tokens = 20, .temperature = 0};

TEST(Generator, StartingStepsAheadChangesNothing) {
  for (const GenerateOptions& options : {kSampled, kGreedy}) {
    Texts behind({.run_ahead = false}), ahead({.run_ahead = true});
    for (const Tokens& prompt : {Tokens{1, 2, 3}, Tokens{4}, Tokens{}})
      EXPECT_EQ(ahead.generator.continue_with(prompt, options).tokens,
                behind.generator.continue_with(prompt, options).tokens);
    EXPECT_EQ(ahead.generator.tokens(), behind.generator.tokens());
    EXPECT_EQ(ahead.generator.tokens().size(), 64u);
  }
}

// A step that was started too many has no effect, whatever ended the text.
TEST(Generator, AStepTooManyIsForgotten) {
  Texts plain({.run_ahead = false}), ahead({.text = letters, .run_ahead = true});
  GenerateOptions options = kSampled;
  options.frequency_penalty = 0.5;
  options.presence_penalty = 0.5;
  const Tokens whole = plain.generator.continue_with({1, 2, 3}, options).tokens;
  int64_t pieces = 0;
  Tokens got =
      ahead.generator.continue_with({1, 2, 3}, options, [&](const Piece&) { return ++pieces < 5; }).tokens;
  EXPECT_EQ(got, Tokens(whole.begin(), whole.begin() + 5));
  EXPECT_EQ(ahead.generator.tokens().size(), 8u);
  // Generates the same text with a generator that never starts a step too many.
  plain.generator.rewind(0);
  options.max_tokens = 10;
  Tokens prompt = {1, 2, 3};
  prompt.insert(prompt.end(), got.begin(), got.end());
  EXPECT_EQ(ahead.generator.continue_with({}, options).tokens,
            plain.generator.continue_with(prompt, options).tokens);
}

TEST(Generator, ContinuesAsIfTheTextWereReadAtOnce) {
  Texts parts, whole;
  const Tokens first = {1, 2, 3, 4, 5}, second = {6, 7, 8};
  const Tokens answer = parts.generator.continue_with(first, kSampled).tokens;
  const GenerateResult next = parts.generator.continue_with(second, kSampled);
  Tokens all = first;
  all.insert(all.end(), answer.begin(), answer.end());
  all.insert(all.end(), second.begin(), second.end());
  EXPECT_EQ(next.tokens, whole.generator.continue_with(all, kSampled).tokens);
  EXPECT_EQ(next.prefilled, 4) << "the last token of the answer and the new prompt";
  EXPECT_EQ(parts.generator.tokens(), whole.generator.tokens());
  // Only reads the prompt.
  Texts read;
  EXPECT_TRUE(read.generator.continue_with(first, {.max_tokens = 0}).tokens.empty());
  EXPECT_EQ(read.generator.continue_with({}, kSampled).tokens, answer);
}

TEST(Generator, RewindsToAPrefix) {
  Texts texts;
  const Tokens answer = texts.generator.continue_with({1, 2, 3}, kSampled).tokens;
  for (const int64_t length : {23, 10, 4, 3, 2, 1}) {
    texts.generator.rewind(length);
    const auto size = static_cast<size_t>(length);
    EXPECT_EQ(texts.generator.tokens().size(), size);
    GenerateOptions rest = kSampled;
    rest.max_tokens = 23 - length;
    if (length >= 3) {
      EXPECT_EQ(texts.generator.continue_with({}, rest).tokens,
                Tokens(answer.begin() + (length - 3), answer.end()));
    } else {
      const Tokens other = texts.generator.continue_with({9}, rest).tokens;
      Texts fresh;
      Tokens prompt = {1, 2, 3};
      prompt.resize(size);
      prompt.push_back(9);
      EXPECT_EQ(other, fresh.generator.continue_with(prompt, rest).tokens);
    }
  }
  texts.generator.rewind(0);
  expect_error([&] { texts.generator.continue_with({}, kSampled); }, {"prompt is empty"});
  expect_error([&] { texts.generator.rewind(1); }, {"rewound to 1", "it has 0"});
}

TEST(Generator, TheSizeOfChunksChangesNothing) {
  Tokens prompt;
  for (int64_t i = 0; i < 45; ++i) prompt.push_back(i * 17 % kVocabulary);
  Tokens expected;
  for (const int64_t chunk : {64, 512, 32, 16, 8, 4, 2, 1}) {
    Texts texts({.prefill_chunk = chunk});
    const Tokens tokens = texts.generator.continue_with(prompt, kSampled).tokens;
    if (expected.empty()) expected = tokens;
    EXPECT_EQ(tokens, expected) << chunk;
  }
  expect_error([&] { Texts({.prefill_chunk = 3}); }, {"prefill chunk of 3", "power of two"});
}

// Computes the greedy choice among penalized logits of `forward` in double precision.
TEST(Generator, PenaltiesAreThoseOfTransformersAndOpenAI) {
  Texts texts;
  const Tokens prompt = {1, 2, 3, 2, 30};
  const GenerateOptions options = {.max_tokens = 30,
                                   .temperature = 0,
                                   .repetition_penalty = 1.7,
                                   .presence_penalty = 0.4,
                                   .frequency_penalty = 0.6};
  const Tokens tokens = texts.generator.continue_with(prompt, options).tokens;
  Tokens text = prompt;
  std::map<int64_t, int> chosen;
  for (const int64_t token : tokens) {
    std::vector<double> x = next_logits(texts.session, text);
    for (const int64_t seen : std::set<int64_t>(text.begin(), text.end())) {
      double& logit = x[static_cast<size_t>(seen)];
      logit = logit > 0 ? logit / 1.7 : logit * 1.7;
    }
    for (const auto& [which, count] : chosen) x[static_cast<size_t>(which)] -= 0.4 + 0.6 * count;
    ASSERT_EQ(token, std::max_element(x.begin(), x.end()) - x.begin()) << "after " << text.size();
    text.push_back(token);
    ++chosen[token];
  }
  Texts without;
  EXPECT_NE(without.generator.continue_with(prompt, {.max_tokens = 30, .temperature = 0}).tokens, tokens);
}

TEST(Generator, LogprobsAreThoseOfTheModel) {
  Texts texts({.run_ahead = true});
  GenerateOptions options = kSampled;
  options.logprobs = true;
  options.top_logprobs = 5;
  const Tokens prompt = {5, 6};
  const GenerateResult result = texts.generator.continue_with(prompt, options);
  options.logprobs = false, options.top_logprobs = 0;
  ASSERT_EQ(result.logprobs.size(), 20u);
  Tokens text = prompt;
  for (const TokenLogprob& logprob : result.logprobs) {
    std::vector<double> x = next_logits(texts.session, text);
    double sum = 0;
    for (const double logit : x) sum += std::exp(logit);
    for (double& logit : x) logit -= std::log(sum);
    EXPECT_NEAR(logprob.logprob, x[static_cast<size_t>(logprob.token)], 1e-5);
    ASSERT_EQ(logprob.top.size(), 5u);
    for (const TokenLogprob& top : logprob.top) {
      EXPECT_NEAR(top.logprob, x[static_cast<size_t>(top.token)], 1e-5);
      x[static_cast<size_t>(top.token)] = -std::numeric_limits<double>::infinity();
      EXPECT_GE(top.logprob + 1e-6, *std::max_element(x.begin(), x.end()));
    }
    text.push_back(logprob.token);
  }
  EXPECT_EQ(Tokens(text.begin() + 2, text.end()), result.tokens);
  texts.generator.rewind(0);
  EXPECT_EQ(texts.generator.continue_with(prompt, options).tokens, result.tokens)
      << "looking changes nothing";
}

TEST(Generator, EndsAtStopTokens) {
  for (const bool ahead : {false, true}) {
    Texts texts({.text = letters, .run_ahead = ahead});
    const Tokens whole = texts.generator.continue_with({1, 2, 3}, kSampled).tokens;
    texts.generator.rewind(0);
    GenerateOptions options = kSampled;
    options.stop_tokens = {whole[6], -5};
    const auto first = std::find(whole.begin(), whole.end(), whole[6]) + 1;
    std::string given;
    int64_t pieces = 0;
    const GenerateResult result = texts.generator.continue_with({1, 2, 3}, options, [&](const Piece& piece) {
      pieces += piece.token >= 0;
      given += piece.text;
      return true;
    });
    EXPECT_EQ(result.stop_reason, StopReason::kStopToken);
    EXPECT_EQ(name_of(result.stop_reason), "stop_token");
    EXPECT_EQ(result.tokens, Tokens(whole.begin(), first));
    EXPECT_EQ(pieces, first - whole.begin() - 1);
    EXPECT_EQ(result.text, text_of(Tokens(whole.begin(), first - 1)) + ".");
    EXPECT_EQ(given, result.text);
  }
}

TEST(Generator, EndsBeforeStopStrings) {
  Texts texts({.text = letters});
  const Tokens whole = texts.generator.continue_with({1, 2, 3}, kSampled).tokens;
  const std::string all = text_of(whole);
  for (size_t at = 0; at + 3 <= all.size(); ++at) {
    texts.generator.rewind(0);
    GenerateOptions options = kSampled;
    options.stop_strings = {"never", all.substr(at, 3)};
    std::string given;
    const GenerateResult result = texts.generator.continue_with({1, 2, 3}, options, [&](const Piece& piece) {
      given += piece.text;
      return true;
    });
    EXPECT_EQ(result.stop_reason, StopReason::kStopString);
    EXPECT_EQ(result.stop_string, all.substr(at, 3));
    EXPECT_EQ(result.text, all.substr(0, all.find(all.substr(at, 3))));
    EXPECT_EQ(given, result.text);
    EXPECT_EQ(Tokens(whole.begin(), whole.begin() + static_cast<int64_t>(result.tokens.size())),
              result.tokens);
    EXPECT_GE(text_of(result.tokens).size(), result.text.size() + 3);
  }
}

TEST(Generator, AFullCacheEndsTheTextAndNothingIsLost) {
  for (const bool ahead : {false, true}) {
    Texts texts({.run_ahead = ahead}, 16);
    const GenerateResult result = texts.generator.continue_with({1, 2, 3}, {.max_tokens = 100, .seed = 2});
    EXPECT_EQ(result.stop_reason, StopReason::kCacheFull);
    EXPECT_EQ(result.tokens.size(), 14u);  // thirteen go into the cache, the last does not
    expect_error([&] { texts.generator.continue_with({}, kSampled); }, {"17 tokens", "holds 16"});
    texts.generator.rewind(16);
    EXPECT_EQ(texts.generator.continue_with({}, {.max_tokens = 100, .seed = 2}).tokens,
              Tokens{result.tokens.back()});
    texts.generator.rewind(10);
    EXPECT_EQ(texts.generator.continue_with({}, {.max_tokens = 100, .seed = 2}).tokens,
              Tokens(result.tokens.begin() + 7, result.tokens.end()));
  }
}

TEST(Generator, LogitsThatAreNoNumbersAreAnErrorThatNamesThePosition) {
  for (const bool ahead : {false, true}) {
    Texts texts({.run_ahead = ahead});
    const Tokens before = texts.generator.continue_with({1, 2, 3}, kSampled).tokens;
    const std::string name = "model.norm.weight";
    const Tensor good = texts.session.state(name);
    std::vector<float> bad(32, std::nanf(""));
    texts.session.set_state(name, Tensor::of<float>({32}, bad));
    texts.generator.rewind(5);
    expect_error([&] { texts.generator.continue_with({}, kSampled); },
                 {"sample_logits", "not a number", "position 5"});
    EXPECT_EQ(texts.generator.tokens().size(), 5u);
    texts.session.set_state(name, good);
    GenerateOptions rest = kSampled;
    rest.max_tokens = 18;
    EXPECT_EQ(texts.generator.continue_with({}, rest).tokens, Tokens(before.begin() + 2, before.end()));
  }
}

TEST(Generator, MistakesAreNamedAndChangeNothing) {
  Texts texts({.text = letters});
  texts.generator.continue_with({1, 2, 3}, {.max_tokens = 2, .temperature = 0});
  const Tokens before = texts.generator.tokens();
  const auto fails = [&](const GenerateOptions& options, const std::vector<std::string>& parts) {
    expect_error([&] { texts.generator.continue_with({1}, options); }, parts);
  };
  fails({.min_p = 1.5}, {"min_p is 1.5"});
  fails({.min_p = std::nan("")}, {"min_p is nan"});
  fails({.repetition_penalty = 0}, {"repetition_penalty is 0"});
  fails({.presence_penalty = std::numeric_limits<double>::infinity()}, {"presence_penalty is inf"});
  fails({.frequency_penalty = -1e9}, {"frequency_penalty is"});
  fails({.stop_strings = {""}}, {"stop string is empty"});
  fails({.logprobs = true, .top_logprobs = 21}, {"top_logprobs is 21", "20"});
  fails({.top_logprobs = 2}, {"logprobs are not asked for"});
  expect_error([&] { texts.generator.continue_with({1, -1}, {}); }, {"token -1", "place 1"});
  expect_error([&] { texts.generator.continue_with({kVocabulary}, {}); }, {"token 37", "place 0"});
  expect_error([&] { texts.generator.continue_with(Tokens(60, 1), {}); },
               {"65 tokens", "holds 64", "59 tokens"});
  EXPECT_EQ(texts.generator.tokens(), before);
  Texts silent;
  expect_error([&] { silent.generator.continue_with({1}, {.stop_strings = {"a"}}); }, {"makes tokens only"});
}

}  // namespace
}  // namespace genesis::text
