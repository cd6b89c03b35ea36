// Tests texts generated side by side: each equals the text that its prompt gives alone, whatever its neighbors are,
// whatever its row contained before, and wherever the others end.
#include <algorithm>
#include <cmath>
#include <limits>

#include "builder/genesis.h"
#include "executor/generation/prompt_reader.h"
#include "models/generation/generator.h"
#include "models/generation/packed_prompts.h"
#include "models/zoo.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "schema/graph/caches.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 61, kPositions = 32;

struct Kind {
  std::string name, model;
  models::Settings more = {};
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

std::unique_ptr<Model> make(const Kind& kind) {
  models::Settings settings = {{"vocab_size", std::to_string(kVocabulary)}, {"initializer_range", "0.3"}};
  const models::Settings sizes =
      kind.model == "gpt2" ? models::Settings{{"n_embd", "32"},
                                              {"n_layer", "2"},
                                              {"n_head", "2"},
                                              {"n_positions", std::to_string(kPositions)}}
                           : models::Settings{{"hidden_size", "32"},
                                              {"intermediate_size", "48"},
                                              {"num_hidden_layers", "2"},
                                              {"num_attention_heads", "4"},
                                              {"num_key_value_heads", "2"},
                                              {"head_dim", "16"},
                                              {"max_position_embeddings", std::to_string(kPositions)}};
  settings.insert(sizes.begin(), sizes.end());
  for (const auto& [key, value] : kind.more) settings[key] = value;
  return models::make_model(kind.model, settings, 3);
}

// Every token is one letter.
TokenText letters() {
  return {.add = [](int64_t token) { return std::string(1, static_cast<char>('0' + token)); },
          .finish = [] { return std::string("."); }};
}

struct Texts {
  Session session;
  Generator generator;
  Texts(const Model& model, int64_t rows, GeneratorOptions options = {.text = letters})
      : session(open_for_generation(std::shared_ptr<const Model>(models::with_cache(model, rows, kPositions)),
                                    {.threads = 2})),
        generator(session, std::move(options)) {}
};

Tokens prompt_of(int64_t length, int64_t seed) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back((i * 17 + seed * 29 + 5) % kVocabulary);
  return tokens;
}

// Returns prompts of all lengths, from one token to the whole context, with options of all kinds.
std::vector<Request> requests() {
  const GenerateOptions greedy = {.max_tokens = 9, .temperature = 0};
  GenerateOptions sampled = {.max_tokens = 12, .temperature = 1.3, .seed = 7}, likely = sampled,
                  penalized = sampled, strict = greedy, looked_at = sampled, none = greedy, endless = sampled;
  likely.min_p = 0.02, likely.top_k = 20, likely.seed = uint64_t{1} << 63;
  penalized.repetition_penalty = 1.4, penalized.presence_penalty = 0.3, penalized.frequency_penalty = 0.5;
  strict.repetition_penalty = 1.7, strict.max_tokens = 20;
  looked_at.logprobs = true, looked_at.top_logprobs = 3;
  none.max_tokens = 0;
  endless.max_tokens = 1000;
  GenerateOptions one = sampled;
  one.max_tokens = 1;
  return {{prompt_of(5, 1), sampled},
          {prompt_of(1, 2), penalized},
          {prompt_of(9, 3), greedy},
          {prompt_of(kPositions, 4), sampled},
          {prompt_of(kPositions - 1, 5), endless},
          {prompt_of(3, 6), strict},
          {prompt_of(4, 7), none},
          {prompt_of(5, 1), sampled},
          {prompt_of(2, 9), looked_at},
          {prompt_of(17, 10), likely},
          {prompt_of(11, 11), one},
          {prompt_of(1, 12), endless}};
}

std::vector<GenerateResult> alone(const Model& model, const std::vector<Request>& requests) {
  Texts texts(model, 1);
  std::vector<GenerateResult> results;
  for (const Request& request : requests) {
    texts.generator.rewind(0);
    results.push_back(texts.generator.continue_with(request.prompt, request.options, request.on_piece));
  }
  return results;
}

void expect_same(const GenerateResult& got, const GenerateResult& expected) {
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.text, expected.text);
  EXPECT_EQ(got.stop_reason, expected.stop_reason);
  EXPECT_EQ(got.stop_string, expected.stop_string);
  EXPECT_EQ(got.prefilled, expected.prefilled);
  EXPECT_EQ(got.decoded, expected.decoded);
  ASSERT_EQ(got.logprobs.size(), expected.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i) {
    EXPECT_NEAR(got.logprobs[i].logprob, expected.logprobs[i].logprob, 1e-4);
    EXPECT_EQ(got.logprobs[i].top.size(), expected.logprobs[i].top.size());
  }
}

void expect_all_same(const std::vector<GenerateResult>& got, const std::vector<GenerateResult>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    expect_same(got[i], expected[i]);
  }
}

class Batches : public ::testing::TestWithParam<Kind> {
 protected:
  const std::unique_ptr<Model> model_ = make(GetParam());
};

TEST_P(Batches, EachTextIsItselfAlone) {
  const std::vector<Request> all = requests();
  const auto expected = alone(*model_, all);
  for (const int64_t rows : {1, 2, 3, 7, 16})
    for (const bool ahead : {false, true}) {
      SCOPED_TRACE(fmt::format("{} rows{}", rows, ahead ? ", ahead" : ""));
      Texts texts(*model_, rows, {.text = letters, .run_ahead = ahead});
      EXPECT_EQ(texts.generator.rows(), rows);
      expect_all_same(texts.generator.generate_all(all), expected);
      EXPECT_TRUE(texts.generator.tokens().empty());
      // Caches that were used before change nothing.
      expect_all_same(texts.generator.generate_all(all), expected);
    }
}

TEST_P(Batches, TheSizeOfChunksChangesNothing) {
  const std::vector<Request> all = requests();
  const auto expected = alone(*model_, all);
  for (const int64_t chunk : {1, 4, 16, 64}) {
    SCOPED_TRACE(fmt::format("chunks of {}", chunk));
    Texts texts(*model_, 3, {.text = letters, .prefill_chunk = chunk});
    expect_all_same(texts.generator.generate_all(all), expected);
  }
}

int64_t runs_of(const generation::RunTimes& times) {
  int64_t count = 0;
  for (const auto& each : times.classes()) count += each.runs;
  return count;
}

// Texts with a row each, whose prompts are read one by one or, where the session has fill_packed, several at once.
struct Reading {
  Session session;
  std::vector<generation::Row> rows;
  generation::WorkClock clock;
  generation::RunTimes times;

  Reading(const std::shared_ptr<const Model>& model, const std::vector<Tokens>& prompts)
      : session(open_for_generation(model, {.threads = 2})), rows(prompts.size()) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      rows[i].text->tokens = prompts[i];
      rows[i].task = std::make_unique<generation::Task>(
          generation::Submission{i + 1, {prompts[i]}}, *rows[i].text,
          generation::Task::Context{.clock = clock, .capacity = kPositions});
    }
  }
  void read(bool by_length_alone, int64_t chunk = 64) {
    std::vector<size_t> all;
    for (size_t r = 0; r < rows.size(); ++r) all.push_back(r);
    generation::PromptReader reader(
        session, rows, all,
        {.chunk = chunk, .capacity = kPositions, .by_length_alone = by_length_alone, .cheap = 8});
    reader.fill_cache(
        1000, [](size_t) {}, times);
    for (const size_t r : all) EXPECT_TRUE(reader.has_read(r));
  }
};

// The caches must then hold what they hold when each prompt was read by itself.
void expect_same_caches(const Reading& together, const Reading& one_by_one) {
  const auto& rows = together.rows;
  for (const State& state : together.session.model().states()) {
    if (!cache_layout(state)) continue;
    const Tensor got = together.session.state(state.name), expected = one_by_one.session.state(state.name);
    const int64_t each = got.numel() / (std::ssize(rows) * kPositions);
    for (size_t r = 0; r < rows.size(); ++r) {
      const int64_t read = rows[r].text->size() - 1;
      EXPECT_EQ(rows[r].text->cached, read);
      const auto begin = static_cast<int64_t>(r) * kPositions * each;
      for (int64_t i = begin; i < begin + read * each; ++i)
        ASSERT_NEAR(got.as<float>()[static_cast<size_t>(i)], expected.as<float>()[static_cast<size_t>(i)],
                    1e-4)
            << state.name << " of text " << r;
      for (int64_t i = begin + read * each; i < begin + kPositions * each; ++i)
        ASSERT_EQ(got.as<float>()[static_cast<size_t>(i)], 0) << "nothing is written behind text " << r;
    }
  }
}

TEST_P(Batches, SeveralPromptsAreReadInOneRun) {
  std::vector<Tokens> prompts;
  for (const int64_t size : {9, 1, 32, 2, 17, 5, 30, 3}) prompts.push_back(prompt_of(size, size));
  const auto rows = std::ssize(prompts);
  const std::shared_ptr<const Model> model = models::with_cache(*model_, rows, kPositions);
  const std::shared_ptr<const Model> shorter = models::with_cache(*model_, rows, kPositions / 2);
  Reading one_by_one(model, prompts), together(shorter, prompts);
  const auto packed = packed_prompts(together.session.model());
  EXPECT_EQ(packed == nullptr, GetParam().name == "dynamic") << "rotations depend on the text's length";
  if (!packed) return;
  together.session.add_entries(packed);
  together.session.grow_cache(kPositions);
  one_by_one.read(true);
  together.read(false);
  EXPECT_EQ(runs_of(together.times), 2) << "91 tokens, 64 of them at a time";
  expect_same_caches(together, one_by_one);
}

// The next power of two above 71 tokens, and a quarter of 512, are more than the 96 positions of all rows.
TEST_P(Batches, ARunIsNoLongerThanTheCache) {
  const std::vector<Tokens> prompts = {prompt_of(32, 1), prompt_of(25, 2), prompt_of(17, 3)};
  const std::shared_ptr<const Model> model = models::with_cache(*model_, 3, kPositions);
  Reading one_by_one(model, prompts);
  one_by_one.read(true);
  const auto packed = packed_prompts(one_by_one.session.model());
  for (const int64_t chunk : {128, 512}) {
    if (!packed) continue;
    Reading together(model, prompts);
    together.session.add_entries(packed);
    together.read(false, chunk);
    EXPECT_EQ(runs_of(together.times), 1);
    expect_same_caches(together, one_by_one);
  }
}

// Returns the model with a prefill_row where some nodes are replaced, and which may read tokens below 0 as 0. `replace` gets the
// builder, too.
std::shared_ptr<const Model> with_prefill_row(
    const Model& model, bool limits_tokens,
    const std::function<Value(GraphBuilder&, const Node&, const std::vector<Value>&)>& replace) {
  const auto made = std::make_shared<Model>(model);
  made->remove_entry("prefill_row");
  const Graph& from = model.entry("prefill_row");
  GraphBuilder g(*made, "prefill_row");
  std::vector<Value> inputs;
  for (const ValueId id : from.inputs())
    inputs.push_back(g.input(from.value(id).name, from.type(id).dtype, from.type(id).shape));
  if (limits_tokens) inputs[0] = maximum(inputs[0], 0);
  const auto part = passes::inline_graph(
      g, from, inputs, {},
      [&](const Node& node, const std::vector<Value>& of) { return replace(g, node, of); });
  for (const auto& [name, value] : part.outputs) g.output(name, value);
  for (const auto& [state, value] : part.updates) g.graph().add_update(state, value);
  return made;
}

// A file may come with a prefill_row of its own.
TEST(Batch, PromptsArePackedOnlyWhereEachSeesItselfAlone) {
  const std::shared_ptr<const Model> model = models::with_cache(*make({"qwen2", "qwen2"}), 2, kPositions);
  const auto as_it_is = [](auto&, auto&, auto&) { return Value(); };
  EXPECT_NE(packed_prompts(*with_prefill_row(*model, true, as_it_is)), nullptr);
  const auto sees_all = [](auto&, const Node& node, const std::vector<Value>& of) {
    auto attention = passes::match<ops::Attention>(node);
    if (!attention) return Value();
    attention.attributes.causal = false;
    return genesis::attention(of[0], of[1], of[2], attention.attributes, {}, of[3]);
  };
  EXPECT_EQ(packed_prompts(*with_prefill_row(*model, false, sees_all)), nullptr) << "each token sees all";
  const auto without_places = [](GraphBuilder& g, const Node& node, const std::vector<Value>& of) {
    const bool is_positions = node.op->info.name == "maximum" && of[0].rank() == 2;
    return is_positions ? unsqueeze(arange(g.graph(), of[0].dim(1)) * 0, 0) : Value();
  };
  EXPECT_EQ(packed_prompts(*with_prefill_row(*model, true, without_places)), nullptr)
      << "the limited tokens are no positions";
}

// A share of 96 rows is three of them.
TEST(Company, RequestsThatWaitForARowBeginInGroups) {
  const Tokens prompt = {1};
  generation::WorkClock clock;
  generation::CacheRows rows(96);
  for (generation::Row& row : rows.all()) {
    row.text->tokens = prompt;
    row.task =
        std::make_unique<generation::Task>(generation::Submission{1, {prompt}}, *row.text,
                                           generation::Task::Context{.clock = clock, .capacity = kPositions});
  }
  generation::Company several(12), none(1);
  EXPECT_FALSE(several.waits_one_more_step(rows, 5)) << "no row is free";
  rows.all()[7].task.reset();
  for (int step = 0; step < generation::Company::kMaxSteps; ++step)
    EXPECT_TRUE(several.waits_one_more_step(rows, 5)) << step;
  EXPECT_FALSE(several.waits_one_more_step(rows, 5)) << "for so many steps";
  several.begin();
  EXPECT_TRUE(several.waits_one_more_step(rows, 5));
  EXPECT_FALSE(several.waits_one_more_step(rows, 1)) << "it has a row";
  EXPECT_FALSE(none.waits_one_more_step(rows, 5));
  for (const size_t row : {8, 9}) rows.all()[row].task.reset();
  EXPECT_FALSE(several.waits_one_more_step(rows, 5)) << "three rows are free";
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Batches,
    ::testing::Values(
        Kind{"gpt2", "gpt2"}, Kind{"qwen2", "qwen2"}, Kind{"qwen3", "qwen3"},
        Kind{"sliding",
             "qwen2",
             {{"sliding_window", "4"}, {"layer_types", "full_attention,sliding_attention"}}},
        Kind{"dynamic",
             "qwen2",
             {{"rope_scaling", "dynamic"}, {"rope_factor", "4"}, {"rope_original_positions", "6"}}}),
    [](const auto& info) { return info.param.name; });

// A row that ends by itself idles while the others continue. The host finds stop strings, and the device finds stop
// tokens.
TEST(Batch, TextsEndWhereTheyEndAlone) {
  const auto model = make({"qwen2", "qwen2"});
  std::vector<Request> all;
  for (int64_t i = 0; i < 9; ++i)
    all.push_back({prompt_of(1 + i % 4, i), {.max_tokens = 20, .temperature = 1.1, .seed = 5}});
  const auto whole = alone(*model, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Tokens& tokens = whole[i].tokens;
    if (i % 3 == 0) {
      all[i].options.stop_tokens = {tokens[3 + i]};
      // There are more stop tokens than a row has on the device, so the host finds them.
      if (i == 6) all[i].options.stop_tokens.insert(all[i].options.stop_tokens.begin(), 20, -9);
    } else if (i % 3 == 1) {
      all[i].options.stop_strings = {whole[i].text.substr(2 + i, 2)};
    } else {
      all[i].on_piece = [left = 4](const Piece&) mutable { return --left > 0; };
    }
  }
  const auto expected = alone(*model, all);
  for (const int64_t rows : {2, 5, 9})
    for (const bool ahead : {false, true}) {
      SCOPED_TRACE(fmt::format("{} rows{}", rows, ahead ? ", ahead" : ""));
      for (size_t i = 2; i < all.size(); i += 3)
        all[i].on_piece = [left = 4](const Piece&) mutable { return --left > 0; };
      Texts texts(*model, rows, {.text = letters, .run_ahead = ahead});
      expect_all_same(texts.generator.generate_all(all), expected);
    }
  EXPECT_EQ(expected[0].stop_reason, StopReason::kStopToken);
  EXPECT_EQ(expected[1].stop_reason, StopReason::kStopString);
  EXPECT_EQ(expected[2].stop_reason, StopReason::kCallback);
}

// An idle row reads again what its cache already has, so its text can be continued.
TEST(Batch, ARowThatRestsKeepsItsCache) {
  const auto model = make({"qwen3", "qwen3"});
  const GenerateOptions options = {.max_tokens = 6, .temperature = 0};
  Texts several(*model, 3, {.run_ahead = true}), one(*model, 1);
  for (const Tokens& prompt : {prompt_of(5, 1), Tokens{}, prompt_of(3, 2)})
    EXPECT_EQ(several.generator.continue_with(prompt, options).tokens,
              one.generator.continue_with(prompt, options).tokens);
  several.generator.rewind(9), one.generator.rewind(9);
  EXPECT_EQ(several.generator.continue_with({1}, options).tokens,
            one.generator.continue_with({1}, options).tokens);
}

TEST(Batch, TokensStreamByRowAndResultsComeAsTheyEnd) {
  const auto model = make({"gpt2", "gpt2"});
  std::vector<std::string> streamed(4);
  std::vector<size_t> order, ended;
  std::vector<Request> all;
  for (size_t i = 0; i < 4; ++i)
    all.push_back({prompt_of(3, static_cast<int64_t>(i)),
                   {.max_tokens = i == 0 ? 20 : 4, .temperature = 0},
                   [&, i](const Piece& piece) {
                     streamed[i] += piece.text;
                     order.push_back(i);
                     return true;
                   }});
  Texts texts(*model, 2);
  const auto results = texts.generator.generate_all(all, [&](size_t i, const GenerateResult& result) {
    EXPECT_EQ(result.text, streamed[i]);
    ended.push_back(i);
  });
  EXPECT_EQ(ended, (std::vector<size_t>{1, 2, 3, 0}));
  EXPECT_EQ(std::vector<size_t>(order.begin(), order.begin() + 4), (std::vector<size_t>{0, 1, 0, 1}));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results[i].text, streamed[i]);
}

TEST(Batch, TheStepThatReadsTheEndOfAPromptCountsAmongThePrompts) {
  Reading one(models::with_cache(*make({"qwen2", "qwen2"}), 1, kPositions), {prompt_of(9, 1)});
  generation::PromptReader reader(
      one.session, one.rows, {0},
      {.chunk = 64, .capacity = kPositions, .by_length_alone = false, .cheap = 8});
  generation::Work work;
  generation::Decoding decoding(one.session, one.rows, kVocabulary, false, true, work);
  reader.fill_cache(
      1000, [](size_t) {}, work.prompts);
  one.rows[0].task->prompt_is_read();
  decoding.begin(reader.last());
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(decoding.step());
  EXPECT_EQ(work.prompts.classes()[4].runs, 1) << "12 tokens";
  EXPECT_EQ(runs_of(work.prompts), 1);
  EXPECT_EQ(runs_of(work.steps), 2);
}

TEST(Batch, MistakesAreNamedBeforeTheFirstStep) {
  const auto model = make({"qwen2", "qwen2"});
  Texts texts(*model, 2);
  bool called = false;
  const auto fails = [&](const Request& bad, const std::vector<std::string>& parts) {
    const std::vector<Request> all = {{{1, 2}, {}, [&](const Piece&) { return called = true; }}, bad};
    expect_error([&] { texts.generator.generate_all(all); }, parts);
  };
  fails({{}}, {"request 1", "prompt is empty"});
  fails({{1, kVocabulary}}, {"request 1", "token 61", "place 1"});
  fails({prompt_of(kPositions + 1, 0)}, {"request 1", "33 tokens", "holds 32"});
  fails({{1}, {.min_p = 2}}, {"request 1", "min_p is 2"});
  EXPECT_FALSE(called);
  EXPECT_TRUE(texts.generator.generate_all({}).empty());
}

TEST(Batch, LogitsThatAreNoNumbersAreAnErrorThatNamesThePositions) {
  const auto model = make({"qwen2", "qwen2"});
  const std::vector<Request> all = {{prompt_of(2, 1), {.max_tokens = 4, .temperature = 0}},
                                    {prompt_of(5, 2), {.max_tokens = 4, .temperature = 0}}};
  const auto expected = alone(*model, all);
  Texts texts(*model, 2);
  const std::string name = "model.norm.weight";
  const Tensor good = texts.session.state(name);
  texts.session.set_state(name, Tensor::of<float>({32}, std::vector<float>(32, std::nanf(""))));
  expect_error([&] { texts.generator.generate_all(all); },
               {"sample_logits", "not a number", "positions 2, 5"});
  texts.session.set_state(name, good);
  expect_all_same(texts.generator.generate_all(all), expected);
}

}  // namespace
}  // namespace genesis::text
