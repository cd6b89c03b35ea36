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
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

// Doubles x and adds @w and 10 times the step's number while the sum of x is below `below`, and counts.
constexpr const char* kModel = R"(
state @w: f32[3] parameter trainable = (1.0, 2.0, 3.0)
entry forward(x: f32[3], below: f32[], most: i64[]) {
  %start = sum(x)
  %goes_on = lt(%start, below)
  %zero = full() {dtype=i64, value=0}
  %y = loop(%goes_on, most, x, %zero, below) {carried=2, entry="step"}
  %z = mul(%y, @w)
  return y = %y
  return count = %y:1
  return z = %z
}
entry step(number: i64[], x: f32[3], count: i64[], below: f32[]) {
  %two = full() {value=2.0}
  %doubled = mul(x, %two)
  %real = cast(number) {dtype=f32}
  %ten = full() {value=10.0}
  %tens = mul(%real, %ten)
  %sum = add(%doubled, @w)
  %next = add(%sum, %tens)
  %total = sum(%next)
  %goes_on = lt(%total, below)
  %one = full() {dtype=i64, value=1}
  %more = add(count, %one)
  return goes_on = %goes_on
  return x = %next
  return count = %more
}
)";

std::shared_ptr<Model> model() { return parse_text(kModel); }

NamedTensors inputs(const Doubles& x, float below, int64_t most) {
  return {{"x", Tensor::of(std::vector<float>(x.begin(), x.end()))},
          {"below", Tensor::scalar(below)},
          {"most", Tensor::scalar(most)}};
}

struct Expected {
  Doubles x;
  int64_t count = 0;
};
Expected expected(Doubles x, double below, int64_t most) {
  Expected result{x};
  const auto total = [&] { return result.x[0] + result.x[1] + result.x[2]; };
  while (result.count < most && total() < below) {
    for (size_t i = 0; i < 3; ++i)
      result.x[i] = result.x[i] * 2 + static_cast<double>(i + 1) + 10 * static_cast<double>(result.count);
    ++result.count;
  }
  return result;
}

void expect_runs(Session& session, const Doubles& x, float below, int64_t most) {
  const auto [y, count] = expected(x, below, most);
  NamedTensors found = session.run("forward", inputs(x, below, most));
  EXPECT_EQ(found["y"].to_doubles(), y);
  EXPECT_EQ(found["count"].as<int64_t>()[0], count);
  EXPECT_EQ(found["z"].to_doubles()[2], y[2] * 3);
}

TEST(Loop, TakesAsManyStepsAsTheDataSay) {
  for (const int threads : {1, 4})
    for (const bool optimize : {true, false}) {
      Session session(model(), {.device = "cpu", .threads = threads, .optimize = optimize});
      expect_runs(session, {1, 2, 3}, 100, 1000);
      expect_runs(session, {1, 2, 3}, 5000, 1000);
      expect_runs(session, {1, 2, 3}, 5000, 3);  // the most steps
      expect_runs(session, {1, 2, 3}, 5000, 0);
      expect_runs(session, {1, 2, 3}, 2, 1000);  // the condition is false from the start
      EXPECT_EQ(expected({1, 2, 3}, 5000, 1000).count, 7);
    }
}

TEST(Loop, ItsMemoryIsPlanned) {
  const auto made = model();
  const CompiledEntry compiled = compile_entry(*made, "forward", {}, target_of("cpu"), {.device = "cpu"});
  ASSERT_EQ(compiled.plan.bodies.size(), 1U);
  const Plan& body = compiled.plan.bodies[0];
  EXPECT_EQ(body.entry, "step");
  EXPECT_GE(compiled.plan.arena_bytes, body.arena_bytes + 4 * 8);
}

TEST(Loop, CarriedValuesMayChangePlaces) {
  Session session(parse_text(R"(
entry forward(a: f32[2], b: f32[2], most: i64[]) {
  %yes = full() {dtype=bool, value=1}
  %y = loop(%yes, most, a, b) {carried=2, entry="swap"}
  return a = %y
  return b = %y:1
}
entry swap(number: i64[], a: f32[2], b: f32[2]) {
  %yes = full() {dtype=bool, value=1}
  return goes_on = %yes
  return a = b
  return b = a
}
)"),
                  {.device = "cpu"});
  for (const int64_t most : {0, 1, 2, 3}) {
    NamedTensors found = session.run("forward", {{"a", Tensor::of(std::vector<float>{1, 2})},
                                                 {"b", Tensor::of(std::vector<float>{3, 4})},
                                                 {"most", Tensor::scalar(most)}});
    EXPECT_EQ(found["a"].to_doubles(), most % 2 == 0 ? (Doubles{1, 2}) : (Doubles{3, 4})) << most;
    EXPECT_EQ(found["b"].to_doubles(), most % 2 == 0 ? (Doubles{3, 4}) : (Doubles{1, 2})) << most;
  }
}

// A loop of `inner` steps in each of `outer` steps, and an index that may be out of range.
constexpr const char* kNested = R"(
entry forward(outer: i64[], inner: i64[], table: f32[4]) {
  %yes = full() {dtype=bool, value=1}
  %zero = full() {value=0.0}
  %y = loop(%yes, outer, %zero, inner, table) {carried=1, entry="around"}
  return y = %y
}
entry around(number: i64[], x: f32[], inner: i64[], table: f32[4]) {
  %yes = full() {dtype=bool, value=1}
  %y = loop(%yes, inner, x, number, table) {carried=1, entry="within"}
  return goes_on = %yes
  return x = %y
}
entry within(number: i64[], x: f32[], outer: i64[], table: f32[4]) {
  %yes = full() {dtype=bool, value=1}
  %at = add(number, outer)
  %places = reshape(%at) {shape=[1]}
  %entry = index_select(table, %places) {axis=0}
  %found = reshape(%entry) {shape=[]}
  %y = add(x, %found)
  return goes_on = %yes
  return x = %y
}
)";

TEST(Loop, LoopsMayStandInLoops) {
  for (const int threads : {1, 4}) {
    Session session(parse_text(kNested), {.device = "cpu", .threads = threads});
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
  std::string text = kModel;
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
  expect_runs(session, {1, 2, 3}, 5000, 1000);
}

TEST(Loop, RunsInAModelOfLowPrecision) {
  const std::shared_ptr<Model> low = passes::cast_precision(*model(), DType::bf16);
  verify(*low);
  Session session(low, {.device = "cpu"});
  expect_runs(session, {1, 2, 3}, 5000, 1000);  // all numbers are small integers
}

TEST(Loop, HasNoGradient) {
  auto made = model();
  Graph& graph = made->entry("forward");
  const std::string problem =
      error_of([&] { passes::gradients(graph, sum(graph.output("y")), {graph.input("x")}); });
  expect_has(problem, "loop");
}

TEST(Loop, RanksDoNotShareOne) {
  const auto made = model();
  SessionOptions options{.device = "cpu"};
  options.mesh = Mesh::parse("data=2");
  expect_has(error_of([&] { compile_entry(*made, "forward", {}, target_of("cpu"), options); }),
             "use one rank");
}

}  // namespace
}  // namespace genesis
