// Tests an Engine: requests that come, end and are cancelled at any time have on the CPU exactly the tokens and
// log-probabilities that each has alone, and none disturbs another.
#include "executor/generation/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "executor/generation/stopwatch.h"
#include "models/generation/generator.h"
#include "models/generation/sampling_entries.h"
#include "models/zoo.h"
#include "tests/op_harness.h"

namespace genesis::generation {
namespace {

using namespace testing;
using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 61;

std::shared_ptr<const Model> small(int64_t rows, int64_t positions, const models::Settings& more = {}) {
  models::Settings settings = {{"vocab_size", std::to_string(kVocabulary)},
                               {"hidden_size", "32"},
                               {"intermediate_size", "48"},
                               {"num_hidden_layers", "2"},
                               {"num_attention_heads", "4"},
                               {"num_key_value_heads", "2"},
                               {"head_dim", "16"},
                               {"tie_word_embeddings", "false"},
                               {"max_position_embeddings", std::to_string(positions)},
                               {"initializer_range", "0.3"}};
  for (const auto& [key, value] : more) settings[key] = value;
  return models::with_cache(*models::make_model("qwen2", settings, 3), rows, positions);
}

struct Served {
  Session session;
  Engine engine;
  explicit Served(int64_t rows, int64_t positions = 64, EngineOptions options = {},
                  const models::Settings& more = {})
      : session(text::open_for_generation(small(rows, positions, more), {.threads = 2})),
        engine(session, options) {}

  void run() {
    while (engine.step()) {
    }
  }
  Result result_of(const Request& request) {
    const RequestId id = engine.submit(request);
    run();
    return *engine.poll(id).result;
  }
};

Tokens prompt_of(int64_t length, int64_t seed) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back((i * 17 + seed * 29 + 5) % kVocabulary);
  return tokens;
}

// Returns requests of all kinds: greedy and sampled, with penalties, with log-probabilities, with stop tokens.
Request request_of(int64_t i) {
  Request request = {prompt_of(1 + i * 7 % 40, i),
                     {.max_tokens = i % 11, .temperature = 1.2, .seed = static_cast<uint64_t>(i)}};
  if (i % 4 == 1) request.options.temperature = 0;
  if (i % 3 == 1) request.options.repetition_penalty = 1.3, request.options.presence_penalty = 0.4;
  if (i % 5 == 2) request.options.logprobs = true, request.options.top_logprobs = 2;
  if (i % 6 == 3) request.options.stop_tokens = {3, 14, 15, 9, 26};
  return request;
}

std::vector<Result> alone(const std::vector<Request>& requests, int64_t positions,
                          const EngineOptions& options, const models::Settings& more = {}) {
  Served one(1, positions, options, more);
  std::vector<Result> results;
  for (const Request& request : requests) results.push_back(one.result_of(request));
  return results;
}

void expect_same_bits(const Result& got, const Result& expected) {
  EXPECT_EQ(got.error_text(), "");
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.finish_reason, expected.finish_reason);
  EXPECT_EQ(got.prefilled, expected.prefilled);
  ASSERT_EQ(got.logprobs.size(), expected.logprobs.size());
  for (size_t t = 0; t < got.logprobs.size(); ++t)
    EXPECT_EQ(got.logprobs[t].logprob, expected.logprobs[t].logprob);
}

void expect_begins(const Tokens& whole, const Tokens& begin) {
  ASSERT_LE(begin.size(), whole.size());
  EXPECT_EQ(begin, Tokens(whole.begin(), whole.begin() + std::ssize(begin)));
}

// Submits and cancels requests at random times, outside of steps and in callbacks.
class RandomTimes {
 public:
  RandomTimes(Engine& engine, const std::vector<Request>& requests, unsigned seed)
      : engine_(engine), requests_(requests), results_(requests.size()), random_(seed) {}

  std::vector<std::optional<Result>> run() {
    while (engine_.step() || next_ < requests_.size()) {
      if (one_of(2)) submit();
      if (one_of(5)) cancel();
    }
    return std::move(results_);
  }

 private:
  bool one_of(unsigned n) { return random_() % n == 0; }
  void submit() {
    if (next_ == requests_.size()) return;
    const size_t i = next_++;
    Request request = requests_[i];
    request.on_token = [this](const NewToken&) {
      if (one_of(10)) submit();
      if (one_of(20)) cancel();
      return true;
    };
    request.on_result = [this, i](Result result) {
      results_[i] = std::move(result);
      if (one_of(3)) submit();
    };
    ids_.push_back(engine_.submit(std::move(request)));
  }
  void cancel() {
    if (!ids_.empty()) engine_.cancel(ids_[random_() % ids_.size()]);
  }

  Engine& engine_;
  const std::vector<Request>& requests_;
  std::vector<std::optional<Result>> results_;
  std::vector<RequestId> ids_;
  size_t next_ = 0;
  std::mt19937 random_;
};

struct Kind {
  std::string name;
  models::Settings settings;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class EngineAtRandomTimes : public ::testing::TestWithParam<Kind> {
 protected:
  // Returns the results of an engine with this many rows, after all requests have ended.
  std::vector<std::optional<Result>> results_of(const std::vector<Request>& requests, int64_t rows,
                                                const EngineOptions& options) {
    Served several(rows, 64, options, GetParam().settings);
    auto results = RandomTimes(several.engine, requests, static_cast<unsigned>(rows)).run();
    const Load load = several.engine.load();
    EXPECT_EQ(load.queued + load.reading + load.decoding + load.finished, 0);
    return results;
  }
};

TEST_P(EngineAtRandomTimes, EachTextHasTheBitsThatItHasAlone) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 60; ++i) requests.push_back(request_of(i));
  for (const int64_t budget : {8, 512}) {
    const auto expected = alone(requests, 64, {.step_tokens = budget}, GetParam().settings);
    size_t cancelled = 0, in_part = 0;
    for (const int64_t rows : {1, 3, 5})
      for (const bool ahead : {false, true}) {
        SCOPED_TRACE(fmt::format("budget {}, {} rows{}", budget, rows, ahead ? ", ahead" : ""));
        const auto results = results_of(requests, rows, {.step_tokens = budget, .run_ahead = ahead});
        for (size_t i = 0; i < requests.size(); ++i) {
          SCOPED_TRACE(fmt::format("request {}", i));
          ASSERT_TRUE(results[i]);
          if (results[i]->finish_reason != FinishReason::kCancelled) {
            expect_same_bits(*results[i], expected[i]);
            continue;
          }
          ++cancelled;
          in_part += !results[i]->tokens.empty();
          expect_begins(expected[i].tokens, results[i]->tokens);
        }
      }
    EXPECT_GT(in_part, 0u);
    EXPECT_GT(cancelled, in_part);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EngineAtRandomTimes,
    ::testing::Values(
        Kind{"plain", {}},
        Kind{"sliding", {{"sliding_window", "4"}, {"layer_types", "full_attention,sliding_attention"}}},
        Kind{"dynamic",
             {{"rope_scaling", "dynamic"}, {"rope_factor", "4"}, {"rope_original_positions", "6"}}},
        Kind{"bf16", {{"dtype", "bf16"}}}),
    [](const auto& info) { return info.param.name; });

// Returns the greatest number of steps between two tokens of a text while a prompt of 2000 tokens is read beside it, and
// the number of steps until the prompt's first token.
std::pair<int64_t, int64_t> steps_beside_a_long_prompt(int64_t budget, bool ahead) {
  constexpr int64_t kPositions = 2304;
  const Request running = {prompt_of(5, 1), {.max_tokens = 200, .temperature = 0}},
                late = {prompt_of(2000, 2), {.max_tokens = 3, .temperature = 0}};
  const EngineOptions options = {.step_tokens = budget, .run_ahead = ahead};
  Served two(2, kPositions, options);
  int64_t step = 0, last = 0, gap = 0, first = 0;
  Request followed = running, waiting = late;
  followed.on_token = [&](const NewToken&) {
    gap = std::max(gap, step - last);
    last = step;
    return true;
  };
  waiting.on_token = [&](const NewToken&) {
    if (first == 0) first = step;
    return true;
  };
  const RequestId id = two.engine.submit(std::move(followed));
  for (; step < 4; ++step) two.engine.step();
  gap = 0;
  const RequestId late_id = two.engine.submit(std::move(waiting));
  for (; first == 0; ++step) two.engine.step();
  const auto counted = std::pair(gap, first - 3);
  two.run();
  const auto expected = alone({running, late}, kPositions, options);
  EXPECT_EQ(two.engine.poll(id).result->tokens, expected[0].tokens);
  EXPECT_EQ(two.engine.poll(late_id).result->tokens, expected[1].tokens);
  return counted;
}

TEST(Engine, TextsGoOnWhileALongPromptIsRead) {
  for (const bool ahead : {false, true}) {
    SCOPED_TRACE(ahead ? "ahead" : "");
    for (const int64_t budget : {64, 512}) {
      const auto [gap, steps] = steps_beside_a_long_prompt(budget, ahead);
      EXPECT_EQ(gap, 1) << "every step gives the running text a token";
      EXPECT_GE(steps, 2000 / budget);
      EXPECT_LE(steps, 2000 / budget + 6);
    }
    EXPECT_EQ(steps_beside_a_long_prompt(std::numeric_limits<int64_t>::max(), ahead).second, 1)
        << "without a budget one step reads the whole prompt";
  }
}

// Steps compute fewer rows when texts end, and texts that have other rows are moved. Each still has the bits that it has alone.
TEST(Engine, StepsHaveAsFewRowsAsTheTextsNeed) {
  constexpr size_t kTexts = 8;
  std::vector<Request> requests;
  for (size_t i = 0; i < kTexts; ++i) {
    requests.push_back(request_of(static_cast<int64_t>(i)));
    requests.back().options.max_tokens = i == 2 || i == 6 ? 40 : 4 + static_cast<int64_t>(i);
    requests.back().options.stop_tokens = {};
  }
  const std::vector<Result> expected = alone(requests, 96, {});
  for (const bool reuse : {false, true}) {
    Served served(8, 96, {.reuse_prefixes = reuse});
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(served.engine.submit(request));
    std::map<int64_t, int64_t> steps;  // by their rows
    while (served.engine.step()) {
      const Load load = served.engine.load();
      ++steps[load.step_rows];
      EXPECT_GE(load.step_rows, load.decoding);
    }
    EXPECT_GT(steps[8], 0);
    EXPECT_GT(steps[4], 0);
    EXPECT_GT(steps[2], 20);
    for (size_t i = 0; i < kTexts; ++i) expect_same_bits(*served.engine.poll(ids[i]).result, expected[i]);
  }
}

// The chunks of a prompt are read when no step is under way, so that the tokens of the steps that run ahead are taken early.
TEST(Engine, EachStepIsCountedOnce) {
  for (const bool ahead : {false, true}) {
    Served served(2, 64, {.step_tokens = 8, .run_ahead = ahead});
    served.engine.submit({prompt_of(5, 1), {.max_tokens = 20, .temperature = 0}});
    for (int step = 0; step < 3; ++step) served.engine.step();
    served.engine.submit({prompt_of(30, 2), {.max_tokens = 0}});
    served.run();
    const Work& work = served.engine.work();
    int64_t steps = 0;
    double seconds = 0;
    for (const auto& each : work.steps.classes()) steps += each.runs, seconds += each.seconds;
    for (const auto& each : work.prompts.classes()) seconds += each.seconds;
    EXPECT_EQ(steps, 20) << ahead;
    EXPECT_LT(seconds, work.seconds);
  }
}

TEST(Engine, OneTextOfManyRowsHasTheShortestSteps) {
  Served served(8, 96, {.prefill_chunk = 16, .step_tokens = 16, .reuse_prefixes = true});
  for (int64_t i = 0; i < 12; ++i) {
    const Result result = served.result_of({prompt_of(40, i), {.max_tokens = 5}});
    EXPECT_EQ(result.tokens.size(), 5u);
    EXPECT_EQ(served.engine.load().step_rows, 2) << i;
  }
  // Earlier texts were moved, and are still there.
  int64_t cached = 0;
  for (int64_t i = 6; i < 12; ++i) cached += served.result_of({prompt_of(40, i), {.max_tokens = 5}}).cached;
  EXPECT_EQ(cached, 6 * 16);
}

// The entry points of a session's own names, and states that are no beginnings, are refused.
TEST(Engine, ASessionAddsEntriesOfFewerRowsAlone) {
  const auto plain = small(8, 64);
  Session session = text::open_for_generation(plain, {});
  EXPECT_TRUE(session.has_entry(decode_name({}) + first_rows_suffix(4)));
  EXPECT_FALSE(session.has_entry(decode_name({}) + first_rows_suffix(3)));
  const auto refused = [&](const std::shared_ptr<const Model>& model, const std::vector<std::string>& parts) {
    expect_error([&] { session.add_entries(model); }, parts);
  };
  refused(nullptr, {"no model"});
  refused(plain, {"states"});
  refused(text::steps_of_first_rows(*plain, 4), {"has an entry point", "_first_4"});
  refused(text::steps_of_first_rows(*small(8, 32), 3), {"k_cache", "f32[3,32,2,16]", "f32[8,64,2,16]"});
  session.add_entries(text::steps_of_first_rows(*plain, 3));
  EXPECT_TRUE(session.has_entry(decode_name({}) + first_rows_suffix(3)));
}

TEST(Engine, ACancelledRequestFreesItsRowAtOnce) {
  for (const bool ahead : {false, true}) {
    Served one(1, 64, {.step_tokens = 8, .run_ahead = ahead});
    Engine& engine = one.engine;
    const RequestId running = engine.submit({prompt_of(3, 1), {.max_tokens = 40, .temperature = 0}});
    const RequestId queued = engine.submit({prompt_of(3, 2), {.max_tokens = 40, .temperature = 0}});
    const RequestId next = engine.submit({prompt_of(3, 3), {.max_tokens = 2, .temperature = 0}});
    const RequestId reading = engine.submit({prompt_of(30, 4), {.max_tokens = 2, .temperature = 0}});
    const RequestId last = engine.submit({prompt_of(4, 5), {.max_tokens = 2, .temperature = 0}});
    for (int64_t i = 0; i < 3; ++i) engine.step();
    engine.cancel(running);
    engine.cancel(queued);
    engine.step();
    const auto first = engine.poll(running).result, second = engine.poll(queued).result;
    EXPECT_EQ(first->finish_reason, FinishReason::kCancelled);
    EXPECT_EQ(first->tokens.size(), 3u);
    EXPECT_TRUE(second->tokens.empty());
    EXPECT_EQ(engine.poll(next).tokens.size(), 1u) << "the next request has the row in the same step";
    engine.step();
    engine.step();
    EXPECT_EQ(engine.load().reading, 1);
    engine.cancel(reading);
    engine.step();
    EXPECT_EQ(engine.poll(reading).result->finish_reason, FinishReason::kCancelled);
    EXPECT_EQ(engine.poll(last).tokens.size(), 1u);
    engine.cancel(running);
    engine.cancel(12345);
    one.run();
    EXPECT_EQ(
        engine.poll(last).result->tokens,
        alone({{prompt_of(4, 5), {.max_tokens = 2, .temperature = 0}}}, 64, {.step_tokens = 8})[0].tokens);
    EXPECT_EQ(engine.poll(next).result->finish_reason, FinishReason::kMaxTokens);
  }
}

TEST(Engine, MistakesOfARequestDisturbNoOther) {
  Served two(2);
  const Request good = {prompt_of(3, 1), {.max_tokens = 9, .temperature = 0}};
  const auto expected = alone({good}, 64, {});
  const RequestId id = two.engine.submit(good);
  two.engine.step();
  expect_error([&] { two.engine.submit({{}}); }, {"prompt is empty"});
  expect_error([&] { two.engine.submit({{1, kVocabulary}}); }, {"token 61", "place 1"});
  expect_error([&] { two.engine.submit({prompt_of(65, 1)}); }, {"65 tokens", "holds 64"});
  expect_error([&] { two.engine.submit({{1}, {.min_p = 2}}); }, {"min_p is 2"});
  const RequestId thrower = two.engine.submit(
      {.prompt = {1}, .on_token = [](const NewToken&) -> bool { fail("the line is busy"); }});
  const RequestId nested =
      two.engine.submit({.prompt = {1}, .on_token = [&](const NewToken&) { return two.engine.step(); }});
  two.run();
  EXPECT_EQ(two.engine.poll(thrower).result->error_text(), "the line is busy");
  const Result failed = *two.engine.poll(nested).result;
  EXPECT_EQ(failed.finish_reason, FinishReason::kFailed);
  EXPECT_NE(failed.error_text().find("a callback has called step()"), std::string::npos);
  expect_same_bits(*two.engine.poll(id).result, expected[0]);
  expect_error([&] { two.engine.poll(id); }, {"request 1 is not known"});
  expect_error([&] { Served(1, 64, {.prefill_chunk = 3}); }, {"prefill chunk of 3", "power of two"});
  expect_error([&] { Served(1, 64, {.step_tokens = 0}); }, {"step_tokens is 0"});
}

// An exception of on_result passes through step(), and the engine goes on.
TEST(Engine, ExceptionsOfResultsPassThrough) {
  Served one(1);
  one.engine.submit(
      {.prompt = {1}, .options = {.max_tokens = 1}, .on_result = [](const Result&) { fail("full"); }});
  const Request good = {{2}, {.max_tokens = 2, .temperature = 0}};
  const RequestId id = one.engine.submit(good);
  expect_error([&] { one.run(); }, {"full"});
  one.run();
  EXPECT_EQ(one.engine.poll(id).result->tokens.size(), 2u);
}

// Makes every text with token 7 have logits that are not numbers.
void poison(Session& session) {
  const std::string name = "model.embed_tokens.weight";
  const Tensor good = session.state(name);
  std::vector<float> values(good.as<float>().begin(), good.as<float>().end());
  for (size_t i = 7 * 32; i < 8 * 32; ++i) values[i] = std::nanf("");
  session.set_state(name, Tensor::of<float>({kVocabulary, 32}, values));
}

TEST(Engine, LogitsThatAreNoNumbersEndTheirRequestAlone) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 12; ++i) {
    Tokens prompt = prompt_of(2 + 5 * i % 37, i);
    for (int64_t& token : prompt) token = token == 7 ? 8 : token;
    const bool is_bad = i % 4 == 2;
    if (is_bad) prompt[prompt.size() / 2] = 7;
    requests.push_back({prompt, {.max_tokens = 6, .temperature = 0}});
  }
  for (const bool ahead : {false, true})
    for (const int64_t rows : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} rows{}", rows, ahead ? ", ahead" : ""));
      Served one(1, 64, {.step_tokens = 8}), several(rows, 64, {.step_tokens = 8, .run_ahead = ahead});
      poison(one.session);
      poison(several.session);
      std::vector<RequestId> ids;
      for (const Request& request : requests) ids.push_back(several.engine.submit(request));
      several.run();
      for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(fmt::format("request {}", i));
        const Result got = *several.engine.poll(ids[i]).result, expected = one.result_of(requests[i]);
        EXPECT_EQ(got.request, ids[i]);
        EXPECT_EQ(got.finish_reason, expected.finish_reason);
        EXPECT_EQ(got.tokens, expected.tokens);
        if (i % 4 != 2) continue;
        EXPECT_EQ(got.finish_reason, FinishReason::kFailed);
        EXPECT_NE(got.error_text().find("not a number"), std::string::npos) << got.error_text();
        EXPECT_NE(got.error_text().find("position"), std::string::npos) << got.error_text();
        if (rows == 1) continue;
        EXPECT_NE(got.error_text().find("this text has such logits behind"), std::string::npos);
      }
    }
}

TEST(Engine, PollingAndCallbacksAgree) {
  Served two(2, 64, {.step_tokens = 8});
  std::vector<Tokens> streamed(20);
  std::vector<std::optional<Result>> called(20);
  std::vector<RequestId> ids;
  for (size_t i = 0; i < 20; ++i) {
    Request polled = request_of(static_cast<int64_t>(i)), request = polled;
    request.on_token = [&, i](const NewToken& token) {
      EXPECT_EQ(token.logprob != nullptr, i % 5 == 2);
      EXPECT_TRUE(!token.logprob || token.logprob->token == token.token);
      streamed[i].push_back(token.token);
      return true;
    };
    request.on_result = [&, i](Result result) { called[i] = std::move(result); };
    two.engine.submit(std::move(request));
    ids.push_back(two.engine.submit(std::move(polled)));
  }
  std::vector<Tokens> got(20);
  std::vector<std::optional<Result>> results(20);
  for (bool goes_on = true; goes_on;) {
    goes_on = two.engine.step();
    for (size_t i = 0; i < 20; ++i) {
      if (results[i]) continue;
      Progress progress = two.engine.poll(ids[i]);
      got[i].insert(got[i].end(), progress.tokens.begin(), progress.tokens.end());
      results[i] = std::move(progress.result);
    }
  }
  for (size_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    ASSERT_TRUE(results[i] && called[i]);
    EXPECT_GE(results[i]->queued_seconds, 0);
    EXPECT_GT(results[i]->prefill_seconds, 0);
    EXPECT_GE(results[i]->decode_seconds, 0);
    EXPECT_EQ(results[i]->cached, 0);
    EXPECT_EQ(results[i]->request, ids[i]);
    EXPECT_EQ(got[i], results[i]->tokens);
    expect_same_bits(*results[i], *called[i]);
    if (called[i]->finish_reason == FinishReason::kStopToken) streamed[i].push_back(called[i]->tokens.back());
    EXPECT_EQ(streamed[i], called[i]->tokens);
  }
}

TEST(Engine, NothingIsKeptOfRequestsThatEnded) {
  constexpr int64_t kRequests = 100000, kRows = 32;
  Served many(kRows, 8, {}, {{"num_hidden_layers", "1"}, {"hidden_size", "16"}, {"intermediate_size", "16"}});
  int64_t submitted = 0, ended = 0, most = 0;
  const std::function<void()> submit = [&] {
    if (submitted == kRequests) return;
    const int64_t i = submitted++;
    many.engine.submit({.prompt = {i % kVocabulary},
                        .options = {.max_tokens = 1, .temperature = 0},
                        .on_result = [&](const Result& result) {
                          ended += result.tokens.size() == 1;
                          submit();
                        }});
  };
  for (int64_t i = 0; i < 2 * kRows; ++i) submit();
  while (many.engine.step()) {
    const Load load = many.engine.load();
    most = std::max(most, load.queued + load.reading + load.decoding + load.finished);
  }
  EXPECT_EQ(ended, kRequests);
  EXPECT_LE(most, 2 * kRows);
  const Load load = many.engine.load();
  EXPECT_EQ(load.queued + load.reading + load.decoding + load.finished + load.conversations, 0);
}

TEST(Engine, AnyThreadMaySubmitAndCancel) {
  constexpr int64_t kEach = 40;
  std::vector<Request> requests;
  for (int64_t i = 0; i < 2 * kEach; ++i) requests.push_back(request_of(i));
  const auto expected = alone(requests, 64, {});
  Served three(3);
  std::map<RequestId, Result> results;
  std::vector<RequestId> ids(requests.size());
  const auto client = [&](int64_t from) {
    for (int64_t i = from; i < from + kEach; ++i) {
      Request request = requests[static_cast<size_t>(i)];
      request.on_result = [&results](Result result) { results[result.request] = std::move(result); };
      const RequestId id = three.engine.submit(std::move(request));
      ids[static_cast<size_t>(i)] = id;
      if (i % 8 == 7) three.engine.cancel(id);
    }
  };
  std::thread first(client, 0), second(client, kEach);
  while (std::ssize(results) < 2 * kEach) {
    if (!three.engine.step()) three.engine.wait(0.01);
  }
  first.join();
  second.join();
  for (size_t i = 0; i < requests.size(); ++i) {
    const Result& got = results.at(ids[i]);
    if (got.finish_reason == FinishReason::kCancelled)
      expect_begins(expected[i].tokens, got.tokens);
    else
      expect_same_bits(got, expected[i]);
  }
  EXPECT_FALSE(three.engine.wait(0.001));
}

TEST(Engine, ConversationsContinueInTheirRows) {
  const SamplingOptions options = {.max_tokens = 4, .temperature = 0};
  Served two(2), one(1);
  Engine& engine = two.engine;
  text::Generator alone(one.session);
  const ConversationId chat = engine.open_conversation(), other = engine.open_conversation();
  const auto ask = [&](ConversationId id, const Tokens& prompt) {
    return two.result_of({.prompt = prompt, .options = options, .conversation = id});
  };
  Tokens text;
  for (const Tokens& prompt : {prompt_of(5, 1), Tokens{}, prompt_of(3, 2)}) {
    const Result got = ask(chat, prompt);
    EXPECT_EQ(got.tokens, alone.continue_with(prompt, {.max_tokens = 4, .temperature = 0}).tokens);
    EXPECT_EQ(got.cached, text.empty() ? 0 : std::ssize(text) - 1);
    EXPECT_EQ(got.prefilled + got.cached, std::ssize(text) + std::ssize(prompt));
    text = engine.conversation_tokens(chat);
    EXPECT_EQ(text, alone.tokens());
    ask(other, {9});
  }
  // Both rows belong to conversations: a request takes the row of the one that was used less recently.
  two.result_of({.prompt = {1}, .options = options});
  EXPECT_EQ(engine.conversation_tokens(chat), text);
  engine.truncate_conversation(chat, 10);
  alone.rewind(10);
  const Result again = ask(chat, {4});
  EXPECT_EQ(again.cached, 0);
  EXPECT_EQ(again.tokens, alone.continue_with({4}, {.max_tokens = 4, .temperature = 0}).tokens);
  EXPECT_EQ(ask(other, {4}).cached, 14);
  expect_error([&] { engine.truncate_conversation(chat, 99); }, {"rewound to 99", "it has 15"});
  engine.close_conversation(chat);
  expect_error([&] { engine.conversation_tokens(chat); }, {"no conversation 1"});
  EXPECT_NE(ask(chat, {1}).error_text().find("no conversation 1"), std::string::npos);
}

// Requests of one conversation run one after another, and hold up no other request.
TEST(Engine, RequestsOfAConversationTakeTurns) {
  Served two(2);
  const ConversationId chat = two.engine.open_conversation();
  std::vector<int> order;
  const auto submit = [&](int number, ConversationId id, int64_t tokens) {
    two.engine.submit({.prompt = {number + 1},
                       .options = {.max_tokens = tokens, .temperature = 0},
                       .on_result = [&order, number](const Result&) { order.push_back(number); },
                       .conversation = id});
  };
  submit(0, chat, 6);
  submit(1, chat, 2);
  submit(2, 0, 2);
  two.engine.step();
  expect_error([&] { two.engine.close_conversation(chat); }, {"conversation 1", "closed", "request 1"});
  two.run();
  EXPECT_EQ(order, (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(two.engine.conversation_tokens(chat).size(), 10u);
  const Result full = two.result_of({.prompt = prompt_of(60, 1), .conversation = chat});
  EXPECT_EQ(full.finish_reason, FinishReason::kFailed);
  EXPECT_NE(full.error_text().find("70 tokens"), std::string::npos) << full.error_text();
  EXPECT_EQ(two.engine.conversation_tokens(chat).size(), 10u);
}

TEST(Engine, ClearDropsRequestsAndKeepsConversations) {
  Served two(2, 64, {.step_tokens = 8, .run_ahead = true});
  const ConversationId chat = two.engine.open_conversation();
  const Request request = {
      .prompt = {1, 2}, .options = {.max_tokens = 8, .temperature = 0}, .conversation = chat};
  const Tokens expected = two.result_of(request).tokens;
  two.engine.truncate_conversation(chat, 0);
  two.engine.submit(request);
  for (int64_t i = 0; i < 4; ++i) two.engine.submit(request_of(5));
  for (int64_t i = 0; i < 3; ++i) two.engine.step();
  two.engine.clear();
  EXPECT_TRUE(two.engine.is_idle());
  EXPECT_FALSE(two.engine.step());
  const auto got = std::ssize(two.engine.conversation_tokens(chat)) - 2;
  ASSERT_GT(got, 0);
  const Tokens rest =
      two.result_of(
             {.prompt = {}, .options = {.max_tokens = 8 - got, .temperature = 0}, .conversation = chat})
          .tokens;
  EXPECT_EQ(rest, Tokens(expected.begin() + got, expected.end()));
}

TEST(Engine, APromptThatSeveralRequestsHaveIsReadOnce) {
  const Tokens prompt = prompt_of(37, 1);
  std::vector<Request> requests;
  for (uint64_t seed = 0; seed < 7; ++seed)
    requests.push_back({prompt, {.max_tokens = 9, .temperature = 1.1, .seed = seed, .logprobs = true}});
  requests.push_back({prompt_of(36, 1), {.max_tokens = 9, .temperature = 0, .logprobs = true}});
  for (Request& request : requests) request.shares_prompt = true;
  const auto expected = alone(requests, 64, {});
  for (const int64_t step_tokens : {8, 512}) {
    Served served(4, 64, {.prefill_chunk = 8, .step_tokens = step_tokens});
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(served.engine.submit(request));
    served.run();
    int64_t prefilled = 0;
    const auto exactly = alone(requests, 64, {.prefill_chunk = 8, .step_tokens = step_tokens});
    for (size_t i = 0; i < ids.size(); ++i) {
      Result got = *served.engine.poll(ids[i]).result;
      if (i < 7) prefilled += std::exchange(got.prefilled, exactly[i].prefilled);
      expect_same_bits(got, exactly[i]);
    }
    EXPECT_LE(
        prefilled,
        2 * 37 + 5);  // the rest of the requests come when rows are free, beside others that have the prompt
  }
  EXPECT_EQ(expected[0].tokens.size(), 9u);
}

// A request whose neighbor is cancelled while it reads the prompt of both reads it itself.
TEST(Engine, APromptIsReadAlsoIfTheRowThatReadsItEnds) {
  Request request = {prompt_of(40, 2), {.max_tokens = 5, .temperature = 0}};
  request.shares_prompt = true;
  const Result expected = alone({request}, 64, {.prefill_chunk = 8, .step_tokens = 8})[0];
  Served served(2, 64, {.prefill_chunk = 8, .step_tokens = 8});
  const RequestId first = served.engine.submit(request), second = served.engine.submit(request);
  served.engine.step();
  served.engine.cancel(first);
  served.run();
  expect_same_bits(*served.engine.poll(second).result, expected);
}

TEST(Engine, BiasesFollowTheTextOfEachRow) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 6; ++i) {
    Request request = {prompt_of(4 + i, i), {.max_tokens = 30, .temperature = i % 2 ? 0.9 : 0.0}};
    if (i % 3 == 0) request.options.no_repeat_ngram_size = 1 + i / 3;
    if (i % 3 == 1) request.options.logit_bias = {{{5}, -std::numeric_limits<double>::infinity()}, {{6}, 50}};
    if (i % 3 == 2) request.options.stop_tokens = {0, 1, 2, 3, 4, 5, 6, 7}, request.options.min_tokens = 12;
    requests.push_back(request);
  }
  const auto expected = alone(requests, 64, {});
  Served served(3);
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(served.engine.submit(request));
  served.run();
  for (size_t i = 0; i < ids.size(); ++i) expect_same_bits(*served.engine.poll(ids[i]).result, expected[i]);
  const std::set<int64_t> distinct(expected[0].tokens.begin(), expected[0].tokens.end());
  EXPECT_EQ(distinct.size(), expected[0].tokens.size());
  EXPECT_EQ(std::ranges::count(expected[1].tokens, 6), 30);
  EXPECT_GE(expected[2].tokens.size(), 12u);
  expect_error(
      [&] {
        served.engine.submit({{1}, {.logit_bias = {{{kVocabulary}, 1}}}});
      },
      {"logit_bias", "61", "from 0 to 60"});
  expect_error([&] { served.engine.submit({{1}, {.logit_bias = {{{}, 1}}}}); }, {"names no token"});
}

}  // namespace
}  // namespace genesis::generation
