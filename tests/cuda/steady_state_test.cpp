// Tests the cost of a run on a GPU for the host after warm-up: no allocation, one wait, one graph. Skipped without a
// GPU.
#include <cmath>

#include "backends/cuda/runtime/runtime.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

using SteadyState = OnGpu;

constexpr int kRuns = 6;

// Checks that each call of `run` waits once. `run` must have been called before.
void expect_one_wait_a_run(const std::string& what, const std::function<void(int)>& run) {
  const cuda::Counters before = cuda::counters();
  for (int i = 0; i < kRuns; ++i) run(i);
  const cuda::Counters after = cuda::counters();
  EXPECT_EQ(after.made, before.made) << what;
  EXPECT_EQ(after.waits, before.waits + kRuns) << what;
  EXPECT_EQ(after.graphs_launched, before.graphs_launched + kRuns) << what;
}

TEST_F(SteadyState, EveryRunAllocatesNothingAndWaitsOnce) {
  Session session(tiny_qwen("adamw,lr=1e-3,clip=1.0"), {.device = "cuda"});
  const auto train = [&](int i) { session.run("train_step", tiny_batch(i)); };
  const auto generate = [&](const char* entry, int64_t tokens) {
    return [&session, entry, tokens](int i) {
      NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({1, tokens}, std::vector<int64_t>(tokens, 3))},
                             {"position", Tensor::of<int64_t>({1}, {i})}};
      if (entry == std::string("prefill")) inputs.emplace("length", Tensor::of<int64_t>({1}, {tokens}));
      session.run(entry, inputs);
    };
  };
  const auto prefill = generate("prefill", 8), decode = generate("decode", 1);
  for (int i = 0; i < 2; ++i) train(i), prefill(0), decode(8 + i);  // allocates and captures everything
  train(2), prefill(0), decode(8);  // the arena has its final size, so all graphs are captured again
  expect_one_wait_a_run("train_step", train);
  expect_one_wait_a_run("prefill", [&](int) { prefill(0); });
  expect_one_wait_a_run("decode", [&](int i) { decode(8 + i); });
}

TEST_F(SteadyState, StagedBatchesGiveTheSameLossesAndTheSameCounts) {
  const std::shared_ptr<Model> model = tiny_qwen("adamw,lr=1e-3,clip=1.0");
  Session plain(model, {.device = "cuda"}), staged(model, {.device = "cuda"});
  const auto loss = [](const NamedTensors& outputs) { return outputs.at("loss").to_doubles()[0]; };
  std::vector<double> expected, got;
  for (int i = 0; i < 2 * kRuns; ++i) expected.push_back(loss(plain.run("train_step", tiny_batch(i))));
  NamedTensors next = tiny_batch(0);
  const auto step = [&](int i) {
    const NamedTensors now = std::exchange(next, tiny_batch(i + 1));
    staged.start("train_step", now);
    staged.stage("train_step", next);
    got.push_back(loss(staged.result()));
  };
  for (int i = 0; i < kRuns; ++i) step(i);
  expect_one_wait_a_run("staged train_step", [&](int i) { step(kRuns + i); });
  EXPECT_EQ(got, expected);
}

// With two runs in flight the host waits once for each, and reads the first one's results first.
TEST_F(SteadyState, RunsStartedAheadCostNoMore) {
  const auto model = std::make_shared<Model>();
  const int32_t state =
      model->add_state({.name = "count", .type = {DType::i64, {1}}, .role = StateRole::kBuffer});
  Graph& graph = model->add_entry("main");
  const Value next = graph.state(state) + 1;
  graph.add_output("count", next);
  graph.add_update(state, next);
  Session session(model, {.device = "cuda"});
  int64_t expected = 0;
  const auto read = [&] { EXPECT_EQ(session.result().at("count").item<int64_t>(), ++expected); };
  session.start("main");
  session.start("main");  // everything is allocated
  read();
  expect_one_wait_a_run("runs ahead", [&](int) {
    session.start("main");
    read();
  });
  read();
}

// Stages a batch that is not run next, one that is staged twice, and one that is never run.
TEST_F(SteadyState, OnlyTheBatchThatWasStagedIsTakenForIt) {
  const auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");
  graph.add_output("y", exp(graph.add_input("x", {DType::f32, {2}})));
  Session session(model, {.device = "cuda"});
  const auto input = [](float x) { return NamedTensors{{"x", Tensor::of<float>({2}, {x, x})}}; };
  const auto expect = [&](const NamedTensors& inputs) {
    EXPECT_FLOAT_EQ(session.result().at("y").as<float>()[1], std::exp(inputs.at("x").as<float>()[1]));
  };
  const NamedTensors a = input(1), b = input(2), c = input(3);
  session.start("main", a);
  session.stage("main", b);
  expect(a);
  session.start("main", c);
  session.stage("main", b);
  session.stage("main", a);
  expect(c);
  session.start("main", a);
  session.stage("main", c);
  expect(a);
  session.stage("main", b);
  session.start("main", b);
  expect(b);
  session.start("main", c);  // the session ends with this run in flight
}

}  // namespace
}  // namespace genesis
