// Tests loops whose number of steps depends on data: bodies as plans in the memory of their loops, and what models, passes and files make of
// them.
#include "schema/ops/tensor/loop.h"

#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "executor/session.h"
#include "passes/core/extract.h"
#include "passes/precision/cast_precision.h"
#include "passes/training/autodiff.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/bodies.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/error_of.h"
#include "tests/executor/loop_models.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

std::shared_ptr<Model> model() { return parse_text(kDoubling); }

TEST(Loop, TakesAsManyStepsAsTheDataSay) {
  for (const int threads : {1, 4})
    for (const bool optimize : {true, false}) {
      Session session(model(), {.device = "cpu", .threads = threads, .optimize = optimize});
      expect_doubles(session, {1, 2, 3}, 100, 1000);
      expect_doubles(session, {1, 2, 3}, 5000, 1000);
      expect_doubles(session, {1, 2, 3}, 5000, 3);  // the most steps
      expect_doubles(session, {1, 2, 3}, 5000, 0);
      expect_doubles(session, {1, 2, 3}, 2, 1000);  // the condition is false from the start
      EXPECT_EQ(doubled({1, 2, 3}, 5000, 1000).count, 7);
    }
}

TEST(Loop, ItsMemoryIsPlanned) {
  const auto made = model();
  const CompiledEntry compiled = compile_entry(*made, "forward", {}, target_of("cpu"), {.device = "cpu"});
  ASSERT_EQ(compiled.plan.bodies.size(), 1U);
  const Plan& body = compiled.plan.bodies[0];
  EXPECT_EQ(body.entry, "step");
  EXPECT_GE(compiled.plan.arena_bytes, body.arena_bytes + 8);
}

TEST(Loop, HasPlansForAGpu) {
  if (!error_of([] { target_of("cuda"); }).empty()) GTEST_SKIP() << "a build without CUDA";
  const std::shared_ptr<Model> nested = parse_text(kNestedLoops);
  const CompiledEntry compiled = compile_entry(*nested, "forward", {}, target_of("cuda"), {.device = "cuda"});
  ASSERT_EQ(compiled.plan.bodies.size(), 1U);
  EXPECT_EQ(compiled.plan.bodies[0].bodies.size(), 1U);
}

TEST(Loop, CarriedValuesMayChangePlacesAndBeCollected) {
  for (const bool optimize : {true, false}) {
    Session session(parse_text(kRotation), {.device = "cpu", .optimize = optimize});
    for (const int64_t most : {0, 1, 2, 3, 4}) expect_rotates(session, most);
  }
}

TEST(Loop, MoreStepsThanRowsAreAnError) {
  for (const int threads : {1, 4}) {
    Session session(parse_text(kRotation), {.device = "cpu", .threads = threads});
    const std::string problem = error_of([&] { session.run("forward", rotation_inputs(5)); });
    EXPECT_NE(problem.find("goes on: give it more rows"), std::string::npos) << problem;
    EXPECT_EQ(session.run("forward", rotation_inputs(2))["count"].as<int64_t>()[0], 2);
  }
}

// The bytes of an input may come from another place in each run.
TEST(Loop, InputsMayMove) {
  Session session(parse_text(kRotation), {.device = "cpu"});
  const NamedTensors kept = rotation_inputs(1);  // its bytes are nowhere else meanwhile
  for (const int64_t most : {3, 1, 2}) expect_rotates(session, most);
  EXPECT_EQ(session.run("forward", kept)["before_end"].to_doubles(), rotated(1).before);
}

TEST(Loop, LoopsMayStandInLoops) {
  for (const int threads : {1, 4}) {
    Session session(parse_text(kNestedLoops), {.device = "cpu", .threads = threads});
    const auto run = [&](int64_t outer, int64_t inner) {
      return session
          .run("forward", {{"outer", Tensor::scalar(outer)},
                           {"inner", Tensor::scalar(inner)},
                           {"table", Tensor::of(std::vector<float>{1, 10, 100, 1000})}})["y"]
          .to_doubles()[0];
    };
    EXPECT_EQ(run(2, 3), 1 + 10 + 100 + 10 + 100 + 1000);
    // The error names the node in the body, and the session goes on.
    const std::string problem = error_of([&] { run(3, 3); });
    EXPECT_NE(problem.find("'entry'"), std::string::npos) << problem;
    EXPECT_NE(problem.find("index 4"), std::string::npos) << problem;
    EXPECT_EQ(run(1, 4), 1111);
    EXPECT_EQ(run(4, 0), 0);
  }
}

std::string problem_with(const std::string& from, const std::string& to) {
  std::string text = kDoubling;
  text.replace(text.find(from), from.size(), to);
  return error_of([&] { verify(*parse_text(text)); });
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Loop, BodiesThatDoNotFitAreRefused) {
  EXPECT_EQ(problem_with("most", "most"), "");
  expect_has(problem_with("entry=\"step\"", "entry=\"other\""), "no entry point of this name");
  expect_has(problem_with("entry=\"step\"", "entry=\"forward\""), "body 'forward'");
  expect_has(problem_with("entry step(number: i64[], x: f32[3]", "entry step(number: i64[], x: f32[1,3]"),
             "number 1 is f32[1,3]: expected f32[3]");
  expect_has(problem_with("count = %more", "count = %more\n  return more = %one"), "it has 4 outputs");
  expect_has(problem_with("carried=2", "carried=4"), "expected 1 to 3");
  expect_has(problem_with("carried=2", "carried=1, collected=1"), "which is a scalar");
  expect_has(problem_with("x, %zero, below) {carried=2", "x, x, below) {carried=1, collected=1"),
             "it has 4 inputs");
  expect_has(problem_with("loop(%goes_on, most", "loop(%start, most"), "condition bool[]");
  expect_has(problem_with("z = %z", "z = %z\n  update @w = %z"), "reads the state 'w'");
  expect_has(problem_with("count = %more", "count = %more\n  update @w = %next"), "updates the state 'w'");
}

TEST(Loop, BodiesStayWithTheirLoops) {
  const auto made = model();
  EXPECT_EQ(with_bodies(*made, {"forward"}), (std::set<std::string>{"forward", "step"}));
  const std::shared_ptr<Model> extracted = passes::extract_entries(*made, {"forward"});
  const std::shared_ptr<Model> read = load_bytes(file_of(*extracted));
  verify(*read);
  Session session(read, {.device = "cpu"});
  expect_doubles(session, {1, 2, 3}, 5000, 1000);
}

TEST(Loop, RunsInAModelOfLowPrecision) {
  const std::shared_ptr<Model> low = passes::cast_precision(*model(), DType::bf16);
  verify(*low);
  Session session(low, {.device = "cpu"});
  expect_doubles(session, {1, 2, 3}, 5000, 1000);  // all numbers are small integers
}

TEST(Loop, HasNoGradient) {
  auto made = model();
  Graph& graph = made->entry("forward");
  const std::string problem =
      error_of([&] { passes::gradients(graph, sum(graph.output("y")), {graph.input("x")}); });
  expect_has(problem, "loop");
}

std::string problem_of_ranks(const std::shared_ptr<Model>& model, const char* mesh) {
  SessionOptions options{.device = "cpu"};
  options.mesh = Mesh::parse(mesh);
  return error_of([&] { compile_entry(*model, "forward", {}, target_of("cpu"), options); });
}

// Weights that ranks along `tensor` share, outside of the loop or inside.
std::shared_ptr<Model> with_shared_weights(bool inside) {
  const std::string layers = R"(
  %wide = linear(x, @up)
  %active = silu(%wide)
  %narrow = linear(%active, @down)
)";
  return parse_text(R"(
state @up: f32[512,64] parameter trainable
state @down: f32[64,512] parameter trainable
entry forward(x: f32[256,64], most: i64[]) {
  %yes = full() {dtype=bool, value=1})" +
                    layers + R"(
  %y = loop(%yes, most, %narrow) {carried=1, entry="step"}
  return y = %y
}
entry step(number: i64[], x: f32[256,64]) {
  %yes = full() {dtype=bool, value=1})" +
                    (inside ? layers : "  %narrow = add(x, x)\n") + R"(
  return goes_on = %yes
  return x = %narrow
}
)");
}

TEST(Loop, EachRankRunsABodyThatExchangesNothing) {
  EXPECT_EQ(problem_of_ranks(parse_text(kDoubling), "data=2"), "");
  EXPECT_EQ(problem_of_ranks(with_shared_weights(false), "tensor=2"), "");
  const std::string problem = problem_of_ranks(with_shared_weights(true), "tensor=2");
  expect_has(problem, "exchanges data with the other ranks");
  expect_has(problem, "mesh axis 'tensor'");
  expect_has(problem, "the body 'step' of a loop");
  expect_has(problem_of_ranks(parse_text(kDoubling), "pipeline=2"), "use one stage");
}

}  // namespace
}  // namespace genesis
