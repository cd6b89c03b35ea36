// Tests loops whose number of steps depends on data on a GPU, where they are nodes of the captured graph. Skipped without a GPU.
#include <set>

#include "backends/cuda/runtime/runtime.h"
#include "executor/inspector.h"
#include "passes/precision/cast_precision.h"
#include "schema/graph/text.h"
#include "tests/cuda/on_gpu.h"
#include "tests/error_of.h"
#include "tests/executor/loop_models.h"

namespace genesis {
namespace {

using namespace testing;

using LoopOnGpu = OnGpu;

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST_F(LoopOnGpu, TakesAsManyStepsAsTheDataSay) {
  for (const bool optimize : {true, false})
    for (const bool low : {false, true}) {
      std::shared_ptr<Model> model = parse_text(kDoubling);
      if (low) model = passes::cast_precision(*model, DType::bf16);  // all numbers are small integers
      Session session(model, {.device = "cuda", .optimize = optimize});
      expect_doubles(session, {1, 2, 3}, 100, 1000);
      expect_doubles(session, {1, 2, 3}, 5000, 1000);
      expect_doubles(session, {1, 2, 3}, 5000, 3);
      expect_doubles(session, {1, 2, 3}, 5000, 0);
      expect_doubles(session, {1, 2, 3}, 2, 1000);
    }
}

TEST_F(LoopOnGpu, CarriedValuesMayChangePlacesAndBeCollected) {
  Session session(parse_text(kRotation), {.device = "cuda"});
  for (const int64_t most : {0, 1, 2, 3, 4, 1}) expect_rotates(session, most);
  expect_has(error_of([&] { session.run("forward", rotation_inputs(5)); }), "goes on: give it more rows");
  expect_rotates(session, 3);
}

// The loops of a run end early if the run before it has a fault, so that its values must not be taken for results.
TEST_F(LoopOnGpu, ARunBehindOneThatFailsFailsToo) {
  Session session(parse_text(kRotation), {.device = "cuda"});
  expect_rotates(session, 3);
  session.start("forward", rotation_inputs(5));
  const auto next = [&] {
    session.start("forward", rotation_inputs(3));
    session.result();
  };
  expect_has(error_of(next), "goes on: give it more rows");
  EXPECT_NE(error_of([&] { session.result(); }), "");
  expect_rotates(session, 3);
}

TEST_F(LoopOnGpu, LoopsMayStandInLoops) {
  Session session(parse_text(kNestedLoops), {.device = "cuda"});
  const auto run = [&](int64_t outer, int64_t inner) {
    return session
        .run("forward", {{"outer", Tensor::scalar(outer)},
                         {"inner", Tensor::scalar(inner)},
                         {"table", Tensor::of(std::vector<float>{1, 10, 100, 1000})}})["y"]
        .to_doubles()[0];
  };
  EXPECT_EQ(run(2, 3), 1 + 10 + 100 + 10 + 100 + 1000);
  // A kernel of a body reports a fault, at which all loops end: these would take a million steps of a million steps.
  const std::string problem = error_of([&] { run(1000000, 1000000); });
  expect_has(problem, "'entry'");
  expect_has(problem, "index 4");
  EXPECT_EQ(run(1, 4), 1111);
  EXPECT_EQ(run(4, 0), 0);
}

// Products, norms and a softmax in each step, and a state that the body reads.
constexpr const char* kLayers = R"(
state @up: f32[256,64] parameter trainable
state @down: f32[64,256] parameter trainable
entry forward(x: f32[32,64], least: f32[], rows: f32[40,32,64]) {
  %yes = full() {dtype=bool, value=1}
  %most = full() {dtype=i64, value=40}
  %y = loop(%yes, %most, x, rows, least) {carried=1, collected=1, entry="step"}
  return y = %y
  return rows = %y:1
  return count = %y:2
}
entry step(number: i64[], x: f32[32,64], least: f32[]) {
  %normed = rms_norm(x)
  %wide = linear(%normed, @up)
  %active = silu(%wide)
  %narrow = linear(%active, @down)
  %shares = softmax(%narrow) {axis=-1}
  %sum = add(x, %shares)
  %half = full() {value=0.9}
  %next = mul(%sum, %half)
  %total = sum(%next)
  %goes_on = gt(%total, least)
  return goes_on = %goes_on
  return x = %next
  return row = %next
}
)";

std::vector<float> numbers(size_t count, float scale) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(scale * static_cast<float>((i * 7919 + 13) % 101) / 101);
  return values;
}

void set_weights(Session& session) {
  session.set_state("up", Tensor::of<float>({256, 64}, numbers(256 * 64, 0.03F)));
  session.set_state("down", Tensor::of<float>({64, 256}, numbers(256 * 64, 0.01F)));
}
NamedTensors inputs_of_layers(float least) {
  return {{"x", Tensor::of<float>({32, 64}, numbers(32 * 64, 4))},
          {"least", Tensor::scalar(least)},
          {"rows", Tensor::of<float>({40, 32, 64}, std::vector<float>(40 * 32 * 64, -3))}};
}

void expect_near(const Tensor& got, const Tensor& expected, double tolerance) {
  const Doubles a = got.to_doubles(), b = expected.to_doubles();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

// Every way to run a plan gives what the CPU gives.
TEST_F(LoopOnGpu, TimedAndObservedRunsGiveTheSame) {
  const std::shared_ptr<Model> model = parse_text(kLayers);
  Session gpu(model, {.device = "cuda"}), cpu(model, {.device = "cpu"}),
      careful(model, {.device = "cuda", .find_nonfinite = true});
  for (Session* session : {&gpu, &cpu, &careful}) set_weights(*session);
  Inspector inspector(gpu);
  std::set<int64_t> counts;
  for (const float least : {1e9F, 3000.0F, 1500.0F}) {
    const NamedTensors inputs = inputs_of_layers(least);
    NamedTensors wanted = cpu.run("forward", inputs);
    counts.insert(wanted["count"].as<int64_t>()[0]);
    const auto check = [&](NamedTensors found) {
      EXPECT_EQ(found["count"].as<int64_t>()[0], wanted["count"].as<int64_t>()[0]);
      expect_near(found["y"], wanted["y"], 2e-3);
      expect_near(found["rows"], wanted["rows"], 2e-3);
    };
    check(gpu.run("forward", inputs));
    check(careful.run("forward", inputs));
    NamedTensors observed;
    inspector.observe(
        "forward", inputs,
        [&](const Step& step, std::span<const TensorView>, std::span<const TensorView> outputs) {
          if (step.op->name() != "loop") return;
          observed = {
              {"y", copy_of(outputs[0])}, {"rows", copy_of(outputs[1])}, {"count", copy_of(outputs[2])}};
        });
    check(observed);
    const auto timings = inspector.profile("forward", inputs);
    EXPECT_EQ(timings.size(), gpu.plan("forward", inputs).steps.size());
    EXPECT_FALSE(inspector.timeline("forward", inputs).tracks.empty());
    check(gpu.run("forward", inputs));
  }
  EXPECT_EQ(counts.size(), 3U) << "the three runs were to take different numbers of steps";
}

// The host starts one graph and waits once, whatever the number of steps.
TEST_F(LoopOnGpu, TheHostWaitsForNoStep) {
  Session session(parse_text(kLayers), {.device = "cuda"});
  set_weights(session);
  for (int i = 0; i < 2; ++i) session.run("forward", inputs_of_layers(1500));
  const cuda::Counters before = cuda::counters();
  for (const float least : {1500.0F, 1e9F, 3000.0F}) session.run("forward", inputs_of_layers(least));
  const cuda::Counters after = cuda::counters();
  EXPECT_EQ(after.made, before.made);
  EXPECT_EQ(after.waits, before.waits + 3);
  EXPECT_EQ(after.graphs_launched, before.graphs_launched + 3);
}

}  // namespace
}  // namespace genesis
