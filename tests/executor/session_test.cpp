// Tests sessions: inputs and outputs, sharing of memory, and the errors for mistakes.
#include "executor/session.h"
#include "executor/inspector.h"

#include <cmath>
#include <filesystem>
#include <thread>

#include "executor/runtime/host_memory.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

// y = x @w, and a counter that advances; the entry points share @w.
constexpr const char* kModel = R"(
state @w: f32[2] parameter trainable = (2.0, -1.0)
state @count: f32[2] buffer = (10.0, 20.0)
state @cache: f32[3] cache
entry scale(x: f32[batch,2], shift: f32[batch]) {
  %scaled = mul(x, @w)
  %row = sum(%scaled) {axes=(1)}
  %y = add(%row, shift)
  return y = %y
}
entry step(x: f32[2]) {
  %next = add(@count, x)
  return before = @count
  return after = %next
  update @count = %next
}
entry wide(x: f32[n,n]) {
  %e = exp(x)
  %t = permute(%e) {axes=(1,0)}
  %p = matmul(%e, %t)
  %s = sum(%p)
  return y = %s
}
)";

std::shared_ptr<Model> parsed_model() { return parse_text(kModel); }
Tensor row(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}
NamedTensors scale_inputs(int64_t batch) {
  std::vector<float> x, shift;
  for (int64_t i = 0; i < batch; ++i) {
    x.push_back(static_cast<float>(i)), x.push_back(1);
    shift.push_back(0.5F);
  }
  return {{"x", Tensor::of<float>({batch, 2}, x)}, {"shift", Tensor::of<float>({batch}, shift)}};
}
Doubles scale_expected(int64_t batch) {
  Doubles y;
  for (int64_t i = 0; i < batch; ++i) y.push_back(2.0 * static_cast<double>(i) - 1 + 0.5);
  return y;
}

TEST(SessionInputs, MistakesAreNamed) {
  Session session(parsed_model());
  const NamedTensors good = scale_inputs(3);
  const auto with = [&](const char* name, const Tensor& tensor) {
    NamedTensors inputs = good;
    inputs[name] = tensor;
    return [&session, inputs] { session.run("scale", inputs); };
  };
  expect_error([&] { session.run("none"); }, {"'none'", "scale", "step"});
  expect_error(
      [&] {
        session.run("scale", {{"x", good.at("x")}});
      },
      {"'shift'", "f32[batch]", "scale", "missing"});
  expect_error(with("other", row({1})), {"'other'", "scale", "x, shift"});
  expect_error(with("x", Tensor::of<double>({3, 2}, Doubles(6))), {"'x'", "f64[3,2]", "f32[batch,2]"});
  expect_error(with("x", row({1, 2})), {"'x'", "f32[2]", "f32[batch,2]"});
  expect_error(with("x", Tensor::of<float>({3, 4}, std::vector<float>(12))), {"'x'", "f32[3,4]", "[3,2]"});
  expect_error(with("shift", row({1, 2})), {"'batch'", "already 3"});
  expect_error(with("x", Tensor()), {"'x'", "no data"});
  expect_error(
      [&] {
        session.run("wide", {{"x", Tensor::of<float>({2, 3}, std::vector<float>(6))}});
      },
      {"'x'", "f32[2,3]", "'n' is already 2"});
  EXPECT_EQ(session.run("scale", good).at("y").to_doubles(), scale_expected(3));
}

TEST(SessionInputs, OptionsAreChecked) {
  for (const char* name : {"tpu", "cuda:", "cuda:x", "cuda:-1", "CPU", ""})
    expect_error([&] { Session(parsed_model(), {.device = name}); },
                 {"no device '" + std::string(name) + "'", "cpu, cuda or cuda:N"});
  expect_error([] { Session(parsed_model(), {.device = "cuda:99"}); }, {"no device 'cuda:99'", "cpu"});
  expect_error([] { Session(parsed_model(), {.threads = -1}); }, {"-1"});
  expect_error([] { Session(parsed_model(), {.disabled = {"no_such_pass"}}); }, {"no_such_pass"});
}

TEST(Sessions, SizesMayChangeFromRunToRun) {
  Session session(parsed_model());
  for (int64_t batch : {3, 1, 100, 0, 3, 64, 1})
    EXPECT_EQ(session.run("scale", scale_inputs(batch)).at("y").to_doubles(), scale_expected(batch)) << batch;
}

TEST(Sessions, ABatchOfNothing) {
  Session session(parsed_model());
  const Tensor y = session.run("scale", scale_inputs(0)).at("y");
  EXPECT_EQ(y.type().to_string(), "f32[0]");
  EXPECT_EQ(session.run("wide", {{"x", Tensor::zeros({DType::f32, {0, 0}})}}).at("y").to_doubles(),
            Doubles{0});
}

TEST(Sessions, ManyPlansStayRight) {
  Session session(parsed_model());
  for (int round = 0; round < 2; ++round)
    for (int64_t batch = 1; batch <= 60; ++batch)
      ASSERT_EQ(session.run("scale", scale_inputs(batch)).at("y").to_doubles(), scale_expected(batch))
          << batch;
}

TEST(Sessions, OutputsKeepTheirValues) {
  Session session(parsed_model());
  const Tensor first = session.run("scale", scale_inputs(3)).at("y");
  session.run("scale", scale_inputs(3));
  NamedTensors other = scale_inputs(3);
  other["shift"] = row({100, 100, 100});
  session.run("scale", other);
  EXPECT_EQ(first.to_doubles(), scale_expected(3));
}

TEST(Sessions, RunsInTwoHalves) {
  Session session(parsed_model());
  const NamedTensors three = scale_inputs(3), five = scale_inputs(5);
  session.start("scale", three);
  session.stage("scale", five);
  expect_error([&] { session.run("step", {{"x", row({1, 2})}}); }, {"'scale'", "result()"});
  EXPECT_EQ(session.result().at("y").to_doubles(), scale_expected(3));
  session.start("scale", five);
  EXPECT_EQ(session.result().at("y").to_doubles(), scale_expected(5));
  expect_error([&] { session.result(); }, {"start()"});
  expect_error([&] { session.stage("scale", {{"x", row({1, 2})}}); }, {"input"});
  EXPECT_EQ(session.run("step", {{"x", row({1, 2})}}).at("after").to_doubles(), (Doubles{11, 22}));
}

TEST(Sessions, ASecondRunMayBeStartedBeforeTheFirstIsRead) {
  Session session(parsed_model());
  const NamedTensors x = {{"x", row({1, 2})}};
  session.start("step", x);
  for (int i = 1; i < 8; ++i) {
    session.start("step", x);
    const double times = i;
    EXPECT_EQ(session.result().at("after").to_doubles(), (Doubles{10 + times, 20 + 2 * times}));
  }
  session.start("scale", scale_inputs(3));  // another entry point, and then one that needs more memory
  expect_error([&] { session.start("step", x); }, {"'step'", "result()"});
  EXPECT_EQ(session.result().at("after").to_doubles(), (Doubles{18, 36}));
  session.start("wide", {{"x", Tensor::zeros({DType::f32, {90, 90}})}});
  expect_error([&] { session.run("step", x); }, {"'scale'", "result()"});
  expect_error([&] { Inspector(session).profile("step", x); }, {"'scale'", "result()"});
  EXPECT_EQ(session.result().at("y").to_doubles(), scale_expected(3));
  EXPECT_EQ(session.result().at("y").to_doubles(), Doubles{90 * 90 * 90});
  expect_error([&] { session.result(); }, {"start()"});
  session.start("step", x);
  session.start("step", x);  // its result is never read
}

TEST(Sessions, UpdatesMoveOnAndTheModelStays) {
  const auto shared = parsed_model();
  Session session(shared);
  NamedTensors out = session.run("step", {{"x", row({1, 2})}});
  EXPECT_EQ(out.at("before").to_doubles(), (Doubles{10, 20}));
  EXPECT_EQ(out.at("after").to_doubles(), (Doubles{11, 22}));
  out = session.run("step", {{"x", row({1, 2})}});
  EXPECT_EQ(out.at("before").to_doubles(), (Doubles{11, 22}));
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{12, 24}));
  EXPECT_EQ(shared->state(shared->find_state("count")).initial.to_doubles(), (Doubles{10, 20}));
  EXPECT_EQ(Session(shared).state("count").to_doubles(), (Doubles{10, 20}));
}

// Outputs that are an input, a state, a view of either, or another output; and a state that takes another's value.
TEST(Sessions, OutputsOfEveryKind) {
  const auto m = parse_text(R"(
state @a: f32[4] buffer = (1.0, 2.0, 3.0, 4.0)
state @b: f32[4] buffer = (5.0, 6.0, 7.0, 8.0)
entry e(x: f32[2,2]) {
  %flat = reshape(x) {shape=[4]}
  %square = reshape(@a) {shape=[2,2]}
  %top = slice(@b) {start=[2], length=[2]}
  %sum = add(@a, %flat)
  return x = x
  return flat = %flat
  return a = @a
  return square = %square
  return top = %top
  return sum = %sum
  return again = %sum
  update @a = @b
  update @b = %flat
}
)");
  const std::vector<SessionOptions> variants = {{},
                                                {.optimize = false},
                                                {.threads = 1, .disabled = {"in_place"}},
                                                {.disabled = {"node_order", "memory_reuse"}}};
  for (const SessionOptions& options : variants) {
    Session session(std::make_shared<const Model>(*m), options);
    const Tensor x = Tensor::of<float>({2, 2}, {10, 20, 30, 40});
    NamedTensors out = session.run("e", {{"x", x}});
    EXPECT_EQ(out.at("x").type().to_string(), "f32[2,2]");
    EXPECT_EQ(out.at("x").to_doubles(), (Doubles{10, 20, 30, 40}));
    EXPECT_EQ(out.at("flat").type().to_string(), "f32[4]");
    EXPECT_EQ(out.at("flat").to_doubles(), (Doubles{10, 20, 30, 40}));
    EXPECT_EQ(out.at("a").to_doubles(), (Doubles{1, 2, 3, 4}));
    EXPECT_EQ(out.at("square").to_doubles(), (Doubles{1, 2, 3, 4}));
    EXPECT_EQ(out.at("top").to_doubles(), (Doubles{7, 8}));
    EXPECT_EQ(out.at("sum").to_doubles(), (Doubles{11, 22, 33, 44}));
    EXPECT_EQ(out.at("again").to_doubles(), (Doubles{11, 22, 33, 44}));
    EXPECT_EQ(session.state("a").to_doubles(), (Doubles{5, 6, 7, 8}));
    EXPECT_EQ(session.state("b").to_doubles(), (Doubles{10, 20, 30, 40}));
    out = session.run("e", {{"x", x}});
    EXPECT_EQ(out.at("a").to_doubles(), (Doubles{5, 6, 7, 8}));
    EXPECT_EQ(session.state("a").to_doubles(), (Doubles{10, 20, 30, 40}));
  }
}

TEST(Sessions, StatesMaySwap) {
  const auto m = parse_text(R"(
state @a: f32[2] buffer = (1.0, 2.0)
state @b: f32[2] buffer = (3.0, 4.0)
entry swap() {
  %n = neg(@a)
  return n = %n
  update @a = @b
  update @b = @a
}
)");
  Session session{std::shared_ptr<const Model>(std::make_shared<Model>(*m))};
  session.run("swap");
  EXPECT_EQ(session.state("a").to_doubles(), (Doubles{3, 4}));
  EXPECT_EQ(session.state("b").to_doubles(), (Doubles{1, 2}));
  EXPECT_EQ(session.run("swap").at("n").to_doubles(), (Doubles{-3, -4}));
  EXPECT_EQ(session.state("a").to_doubles(), (Doubles{1, 2}));
}

TEST(SessionStates, SetAndReset) {
  const auto shared = parsed_model();
  Session session(shared);
  EXPECT_EQ(session.state("cache").to_doubles(), Doubles(3));
  session.set_state("w", row({1, 1}));
  session.set_state("cache", row({1, 2, 3}));
  session.run("step", {{"x", row({1, 2})}});
  EXPECT_EQ(session.run("scale", {{"x", Tensor::of<float>({1, 2}, {3, 4})}, {"shift", row({0})}})
                .at("y")
                .to_doubles(),
            Doubles{7});
  session.reset_states(StateRole::kCache);
  EXPECT_EQ(session.state("cache").to_doubles(), Doubles(3));
  EXPECT_EQ(session.state("w").to_doubles(), (Doubles{1, 1}));
  session.reset_states(StateRole::kBuffer);
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{10, 20}));
  session.reset_states(StateRole::kParameter);
  EXPECT_EQ(session.run("scale", scale_inputs(2)).at("y").to_doubles(), scale_expected(2));
  EXPECT_EQ(shared->state(0).initial.to_doubles(), (Doubles{2, -1}));
}

TEST(SessionStates, MistakesAreNamed) {
  expect_error([] { Session none(nullptr); }, {"no model"});
  Session session(parsed_model());
  expect_error([&] { session.state("weight"); }, {"'weight'"});
  expect_error([&] { session.set_state("weight", row({1})); }, {"'weight'"});
  expect_error([&] { session.set_state("w", row({1})); }, {"'w'", "f32[2]", "f32[1]"});
  expect_error(
      [&] {
        session.set_state("w", Tensor::of<int64_t>({2}, {1, 2}));
      },
      {"'w'", "f32[2]", "i64[2]"});
  expect_error(
      [&] {
        session.set_state("w", Tensor({DType::f32, {2}}, nullptr, nullptr));
      },
      {"'w'", "no data"});
  EXPECT_EQ(session.state("w").to_doubles(), (Doubles{2, -1}));
}

// All entry points and sizes share one arena, which is as large as the largest plan and not the sum. Interleaved runs
// give the same results.
TEST(SessionMemory, EntryPointsShareOneArena) {
  Session session(parsed_model());
  int64_t largest = 0;
  const auto square = [](int64_t n) {
    return Tensor::of<float>({n, n}, std::vector<float>(static_cast<size_t>(n * n), 0.0F));
  };
  for (int64_t n : {4, 64, 16, 64, 4}) {
    largest = std::max(largest, session.plan("wide", {{"n", n}}).arena_bytes);
    EXPECT_EQ(session.run("wide", {{"x", square(n)}}).at("y").to_doubles(),
              Doubles{static_cast<double>(n * n * n)});
    EXPECT_EQ(session.run("scale", scale_inputs(n)).at("y").to_doubles(), scale_expected(n));
    session.run("step", {{"x", row({1, 2})}});
    for (int64_t batch : {n})
      largest = std::max(largest, session.plan("scale", {{"batch", batch}}).arena_bytes);
  }
  largest = std::max(largest, session.plan("step", {}).arena_bytes);
  EXPECT_EQ(Inspector(session).memory().arena_bytes, largest);
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{15, 30}));
}

TEST(SessionMemory, WeightsThatNobodyWritesAreNotCopied) {
  const TemporaryFolder folder;
  save_model(*parsed_model(), folder / "m.genesis");
  const std::shared_ptr<const Model> shared = load_model(folder / "m.genesis");
  Session a(shared), b(shared);
  for (Session* session : {&a, &b}) session->run("scale", scale_inputs(2));
  EXPECT_EQ(Inspector(a).memory().state_bytes, 0);
  EXPECT_EQ(Inspector(a).memory().mapped_bytes, 16);  // w and count
  EXPECT_EQ(a.state("w").data(), b.state("w").data());
  a.run("step", {{"x", row({1, 2})}});
  EXPECT_EQ(Inspector(a).memory().state_bytes, 8);  // count was written, w was not
  EXPECT_EQ(Inspector(a).memory().mapped_bytes, 8);
  EXPECT_EQ(Inspector(b).memory().state_bytes, 0);
  EXPECT_EQ(b.state("count").to_doubles(), (Doubles{10, 20}));
  EXPECT_EQ(load_model(folder / "m.genesis", {.verify = Verify::kFull})->states().size(), 3u);
}

TEST(SessionMemory, TheHostHasMemoryLeft) {
  const auto free = free_host_bytes();
  if (!free) GTEST_SKIP() << "the system does not say how much memory is free";
  EXPECT_GT(*free, int64_t{16} << 20);
  EXPECT_LT(*free, int64_t{1} << 50);
}

// This needs 4 TiB. On a system that only counts touched memory, the process would be killed in the middle of the
// run.
TEST(SessionMemory, WhatDoesNotFitIsRefusedWithWhatTakesIt) {
  Session session(
      std::shared_ptr<const Model>(parse_text("entry f(a: f32[n,1], b: f32[1,n]) {\n  %outer = matmul(a, "
                                              "b)\n  %y = sum(%outer)\n  return y = %y\n}")));
  const int64_t n = int64_t{1} << 20;
  const std::vector<float> ones(static_cast<size_t>(n), 1);
  expect_error(
      [&] {
        session.run("f", {{"a", Tensor::of<float>({n, 1}, ones)}, {"b", Tensor::of<float>({1, n}, ones)}});
      },
      {"cpu has too little memory: 4.00 TiB are needed (arena 4.00 TiB, states 0 B, constants 0 B)",
       "--memory-budget", "at the peak:\n      4.00 TiB  outer"});
  EXPECT_EQ(
      session.run("f", {{"a", Tensor::of<float>({2, 1}, {1, 2})}, {"b", Tensor::of<float>({1, 2}, {3, 4})}})
          .at("y")
          .to_doubles()[0],
      21);
}

TEST(SessionThreads, TwoSessionsAtOnceGiveTheBitsOfOneAlone) {
  const auto shared = parsed_model();
  std::vector<float> x(96 * 96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const NamedTensors inputs = {{"x", Tensor::of<float>({96, 96}, x)}};
  const auto work = [&](Doubles& results) {
    Session session(shared, {.threads = 2});
    for (int i = 0; i < 20; ++i) {
      results.push_back(session.run("wide", inputs).at("y").to_doubles()[0]);
      results.push_back(session.run("step", {{"x", row({0.1F, 0.2F})}}).at("after").to_doubles()[1]);
    }
  };
  Doubles alone, a, b;
  work(alone);
  std::thread first([&] { work(a); }), second([&] { work(b); });
  first.join();
  second.join();
  EXPECT_EQ(a, alone);
  EXPECT_EQ(b, alone);
}

constexpr const char* kFaulty = R"(
state @table: f32[3,2] parameter = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
entry read(ids: i64[n], x: f32[n,2]) {
  %embed.tokens = embedding(ids, @table)
  %ratio = div(%embed.tokens, x)
  %log = log(%ratio)
  return y = %log
}
)";

TEST(SessionFaults, AnIndexOutOfRangeNamesTheNodeAndAGoodRunWorksAgain) {
  Session session(std::shared_ptr<const Model>(parse_text(kFaulty)));
  const auto inputs = [](std::vector<int64_t> ids, float x) {
    return NamedTensors{{"ids", Tensor::of<int64_t>({2}, ids)},
                        {"x", Tensor::of<float>({2, 2}, {x, x, x, x})}};
  };
  const Doubles good = session.run("read", inputs({0, 0}, 1)).at("y").to_doubles();
  expect_error([&] { session.run("read", inputs({0, 3}, 1)); }, {"embed.tokens", "index 3", "less than 3"});
  expect_error([&] { session.run("read", inputs({-1, 0}, 1)); }, {"embed.tokens", "index -1"});
  EXPECT_EQ(session.run("read", inputs({0, 0}, 1)).at("y").to_doubles(), good);
  EXPECT_NEAR(good[1], std::log(2.0), 1e-6);
}

// Branches run side by side. Whichever of them meets the bad index, the run ends with an error and the next run is
// good.
TEST(SessionFaults, ParallelBranchesStopTogether) {
  std::string text = "state @table: f32[64,256] parameter\nentry read(ids: i64[n]) {\n";
  std::string last;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    text += "  %e" + n + " = embedding(ids, @table)\n  %x" + n + " = exp(%e" + n + ")\n  %m" + n +
            " = matmul(%x" + n + ", @table) {transpose_b=true}\n  %s" + n + " = sum(%m" + n + ")\n";
    last += "  return y" + n + " = %s" + n + "\n";
  }
  Session session(std::shared_ptr<const Model>(parse_text(text + last + "}\n")),
                  {.threads = 4, .optimize = false});
  std::vector<float> table(64 * 256);
  for (size_t i = 0; i < table.size(); ++i) table[i] = 0.1F * std::sin(static_cast<float>(i));
  session.set_state("table", Tensor::of<float>({64, 256}, table));
  std::vector<int64_t> ids(500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 64);
  const Tensor good = Tensor::of<int64_t>({500}, ids);
  ids[321] = 64;
  const Tensor bad = Tensor::of<int64_t>({500}, ids);
  const Doubles expected = session.run("read", {{"ids", good}}).at("y5").to_doubles();
  for (int i = 0; i < 20; ++i) {
    expect_error([&] { session.run("read", {{"ids", bad}}); }, {"(embedding)", "index 64", "less than 64"});
    const NamedTensors out = session.run("read", {{"ids", good}});
    for (const auto& [name, tensor] : out) ASSERT_EQ(tensor.to_doubles(), expected) << name;
  }
}

TEST(SessionFaults, FindNonfiniteNamesTheNodeThatMadeIt) {
  for (bool optimize : {false, true}) {
    Session session(std::shared_ptr<const Model>(parse_text(kFaulty)),
                    {.optimize = optimize, .find_nonfinite = true});
    const auto inputs = [](float x) {
      return NamedTensors{{"ids", Tensor::of<int64_t>({1}, {1})}, {"x", Tensor::of<float>({1, 2}, {1, x})}};
    };
    if (!optimize) {
      expect_error([&] { session.run("read", inputs(0)); },
                   {"'ratio'", "an infinity", "element 1", "inputs were finite"});
      expect_error([&] { session.run("read", inputs(-1)); }, {"'log'", "NaN", "element 1"});
    } else {
      expect_error([&] { session.run("read", inputs(-1)); }, {"NaN", "element 1"});
    }
    EXPECT_EQ(session.run("read", inputs(4)).at("y").to_doubles()[1], 0);
  }
}

// The author wrote the -inf of the mask, so it passes. The NaN of a row that sees nothing is found after it.
TEST(SessionFaults, FindNonfinitePassesOverInfinitiesThatTheModelSays) {
  for (const bool optimize : {false, true}) {
    Session session(std::shared_ptr<const Model>(parse_text(
                        "entry f(x: f32[2,2]) {\n  %low = full() {value=-inf}\n  %zero = full() {value=0.0}\n"
                        "  %seen = gt(x, %zero)\n  %masked = where(%seen, x, %low)\n"
                        "  %y = softmax(%masked)\n  %s = logsumexp(%masked) {axes=(1)}\n"
                        "  return y = %y\n  return s = %s\n}")),
                    {.optimize = optimize, .find_nonfinite = true});
    session.run("f", {{"x", Tensor::of<float>({2, 2}, {1, -1, -1, 1})}});
    expect_error(
        [&] {
          session.run("f", {{"x", Tensor::of<float>({2, 2}, {1, -1, -1, -1})}});
        },
        {"'y'", "NaN at element 2"});
  }
}

// A NaN in the caller's input is not blamed on the first node.
TEST(SessionFaults, FindNonfiniteTellsANaNThatCameIn) {
  Session session(std::shared_ptr<const Model>(parse_text(kFaulty)), {.find_nonfinite = true});
  const NamedTensors inputs = {{"ids", Tensor::of<int64_t>({1}, {1})},
                               {"x", Tensor::of<float>({1, 2}, {1, std::nanf("")})}};
  try {
    session.run("read", inputs);
    ADD_FAILURE() << "nothing was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.message().find("inputs were finite"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("input 'x' held NaN at element 1"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace genesis
