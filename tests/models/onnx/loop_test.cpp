// Tests ONNX loops whose number of steps depends on data: their bodies become entry points that the executor runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>
#include <set>

#include "executor/session.h"
#include "models/formats/onnx/call.h"
#include "models/formats/onnx/import.h"
#include "models/formats/onnx/program.h"
#include "passes/precision/cast_precision.h"
#include "schema/graph/verify.h"
#include "schema/ops/tensor/loop.h"
#include "tests/error_of.h"
#include "tests/models/onnx/onnx_messages.h"

namespace genesis {
namespace {

using models::onnx::import_file;
using testing::error_of;
using namespace testing::onnx_messages;
using Doubles = std::vector<double>;

template <class T>
std::string numbers(const std::string& name, const std::vector<int64_t>& shape, int64_t element,
                    const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return tensor(name, shape, element, piece(9, bytes));
}
std::string reals(const std::string& name, const std::vector<int64_t>& shape,
                  const std::vector<float>& values) {
  return numbers(name, shape, 1, values);
}
std::string integers(const std::string& name, const std::vector<int64_t>& shape,
                     const std::vector<int64_t>& values) {
  return numbers(name, shape, 7, values);
}
std::string attribute(const std::string& name, int64_t value) {
  return piece(5, piece(1, name) + number(3, value));
}
std::string graph_attribute(const std::string& name, const std::string& graph) {
  return piece(5, piece(1, name) + piece(6, graph));
}
std::string graph(const std::vector<std::string>& nodes, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs) {
  std::string message;
  for (const std::string& one : nodes) message += piece(1, one);
  for (const std::string& one : inputs) message += piece(11, one);
  for (const std::string& one : outputs) message += piece(12, one);
  return message;
}

// Nodes that say whether the sum of `x` is below 100.
std::vector<std::string> is_small(const std::string& x, const std::string& result) {
  return {node("ReduceSum", {x}, {x + ".sum"}, attribute("keepdims", 0)),
          node("Less", {x + ".sum", "hundred"}, {result})};
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// b = v * w + |x|, or the square of that once its sum is above 50; w is an initializer, |x| a value of the graph around.
std::vector<std::string> step_nodes() {
  const std::string same = graph({node("Identity", {"b"}, {"same"})}, {}, {value_info("same", {4})}),
                    square = graph({node("Mul", {"b", "b"}, {"square"})}, {}, {value_info("square", {4})});
  return joined({node("Mul", {"v", "w"}, {"a"}), node("Add", {"a", "shift"}, {"b"}),
                 node("ReduceSum", {"b"}, {"sum_b"}, attribute("keepdims", 0)),
                 node("Less", {"sum_b", "fifty"}, {"below_fifty"}),
                 node("If", {"below_fifty"}, {"v1"},
                      graph_attribute("then_branch", same) + graph_attribute("else_branch", square))},
                is_small("v1", "c1"));
}
std::vector<std::string> body_inputs() {
  return {value_info("i", {}, 7), value_info("c", {}, 9), value_info("v", {4})};
}
std::vector<std::string> body_outputs() { return {value_info("c1", {}, 9), value_info("v1", {4})}; }

std::vector<std::string> tensors() {
  return {reals("w", {4}, {2, 1, 1, 2}), reals("hundred", {}, {100}), reals("fifty", {}, {50}),
          integers("three", {}, {3})};
}

std::string while_small(const std::string& most) {
  const std::string body = graph(step_nodes(), body_inputs(), body_outputs());
  return model(joined(joined({node("Abs", {"x"}, {"shift"})}, is_small("x", "go")),
                      {node("Loop", {most, "go", "x"}, {"y"}, graph_attribute("body", body))}),
               tensors());
}

Doubles expected(Doubles x, int64_t most) {
  const Doubles shift = {std::abs(x[0]), std::abs(x[1]), std::abs(x[2]), std::abs(x[3])}, w = {2, 1, 1, 2};
  const auto sum = [](const Doubles& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  for (int64_t step = 0; step < most && sum(x) < 100; ++step) {
    for (size_t i = 0; i < 4; ++i) x[i] = x[i] * w[i] + shift[i];
    if (sum(x) >= 50)
      for (double& v : x) v *= v;
  }
  return x;
}

// Initializers stay where the file is, which therefore is kept.
OnnxFile file_of(const std::string& bytes) {
  static std::deque<std::string> kept;
  kept.push_back(bytes);
  return read_onnx_from(std::as_bytes(std::span(kept.back())));
}

std::shared_ptr<Model> imported(const std::string& bytes) { return import_file(file_of(bytes), {}); }

NamedTensors x_of(const Doubles& x) { return {{"x", Tensor::of(std::vector<float>(x.begin(), x.end()))}}; }

TEST(OnnxLoop, TakesAsManyStepsAsTheDataSay) {
  const std::shared_ptr<Model> model = imported(while_small(""));
  verify(*model);
  EXPECT_TRUE(model->find_entry("loop.0"));
  EXPECT_GE(model->find_state("w"), 0);  // a parameter, which the body reads
  Session session(model, {.device = "cpu"});
  for (const Doubles& x : {Doubles{1, 2, 3, 4}, Doubles{0.25, 0, -0.5, 1}, Doubles{100, 2, 3, 4}})
    EXPECT_EQ(session.run("forward", x_of(x))["y"].to_doubles(), expected(x, 1000)) << x[0];
}

TEST(OnnxLoop, StopsAtItsLimit) {
  Session session(imported(while_small("three")), {.device = "cpu"});
  const Doubles x = {0.25, 0, -0.5, 1};
  EXPECT_EQ(session.run("forward", x_of(x))["y"].to_doubles(), expected(x, 3));
  EXPECT_NE(expected(x, 3), expected(x, 4));
}

TEST(OnnxLoop, OneModelRunsForAllInputs) {
  models::onnx::Program program(file_of(while_small("")));
  for (const Doubles& x : {Doubles{1, 2, 3, 4}, Doubles{0.25, 0, -0.5, 1}})
    EXPECT_EQ(program.run(x_of(x))["y"].to_doubles(), expected(x, 1000));
  EXPECT_EQ(program.variants(), 1U);
}

// Outputs of the body have names by their places, which names in the file may equal.
TEST(OnnxLoop, CarriedValuesMayHaveAnyName) {
  const std::string body =
      graph(joined({node("Identity", {"condition"}, {"v"})}, step_nodes()),
            {value_info("i", {}, 7), value_info("c", {}, 9), value_info("condition", {4})}, body_outputs());
  const std::shared_ptr<Model> model = imported(testing::onnx_messages::model(
      joined(joined({node("Abs", {"x"}, {"shift"})}, is_small("x", "go")),
             {node("Loop", {"", "go", "x"}, {"y"}, graph_attribute("body", body))}),
      tensors()));
  verify(*model);
  Session session(model, {.device = "cpu"});
  const Doubles x = {1, 2, 3, 4};
  EXPECT_EQ(session.run("forward", x_of(x))["y"].to_doubles(), expected(x, 1000));
}

TEST(OnnxLoop, RunsInLowPrecision) {
  const std::shared_ptr<Model> low = passes::cast_precision(*imported(while_small("")), DType::bf16);
  verify(*low);
  Session session(low, {.device = "cpu"});
  const Doubles x = {1, 2, 3, 4};
  EXPECT_NEAR(session.run("forward", x_of(x))["y"].to_doubles()[3] / expected(x, 1000)[3], 1, 0.05);
}

// The first steps are known, and values have another type behind the first; positions depend on the number of the step; the results of
// those steps that were taken are sliced behind the loop, as PaddlePaddle does.
TEST(OnnxLoop, WritesAndSlicesAtPlacesThatDependOnTheStep) {
  const std::string body = graph(
      joined({node("Add", {"k", "one"}, {"k_next"}), node("Reshape", {"k", "shape_1"}, {"first"}),
              node("Reshape", {"k_next", "shape_1"}, {"wanted_end"}),
              node("Min", {"wanted_end", "four"}, {"end"}), node("Slice", {"x", "first", "end"}, {"part"}),
              node("Mul", {"part", "part"}, {"written"}), node("Squeeze", {"first"}, {"first_0"}),
              node("Squeeze", {"end"}, {"end_0"}), node("Range", {"first_0", "end_0", "one"}, {"places"}),
              node("ScatterElements", {"v", "places", "written"}, {"v1"}), node("Identity", {"v1"}, {"u1"}),
              node("Identity", {"k_next"}, {"k1"})},
             is_small("v1", "c1")),
      {value_info("i", {}, 7), value_info("c", {}, 9), value_info("v", {4}), value_info("u", {1}),
       value_info("k", {}, 7)},
      {value_info("c1", {}, 9), value_info("v1", {4}), value_info("u1", {4}), value_info("k1", {}, 7)});
  const std::string bytes = model(
      {node("Loop", {"most", "", "zeros", "undefined", "zero"}, {"v_end", "u_end", "k_end"},
            graph_attribute("body", body)),
       node("Reshape", {"k_end", "shape_1"}, {"count"}), node("Slice", {"u_end", "begin", "count"}, {"y"})},
      joined(tensors(),
             {reals("zeros", {4}, {0, 0, 0, 0}), reals("undefined", {1}, {7}), integers("zero", {}, {0}),
              integers("one", {}, {1}), integers("most", {}, {4}), integers("four", {1}, {4}),
              integers("shape_1", {1}, {1}), integers("begin", {1}, {0})}));
  Session session(imported(bytes), {.device = "cpu"});
  NamedTensors all = session.run("forward", x_of({1, 2, 3, 4}));
  EXPECT_EQ(all["y"].to_doubles(), (Doubles{1, 4, 9, 16}));
  EXPECT_EQ(all["y.length"].as<int64_t>()[0], 4);
  NamedTensors two = session.run("forward", x_of({3, 10, 5, 6}));
  EXPECT_EQ(two["y.length"].as<int64_t>()[0], 2);
  EXPECT_EQ(two["y"].to_doubles()[0], 9);
  EXPECT_EQ(two["y"].to_doubles()[1], 100);
}

// Collects v1 and twice v of each step; `most` is the limit of the file, or "".
std::string collecting(const std::string& most) {
  const std::string body = graph(joined(step_nodes(), {node("Add", {"v", "v"}, {"twice"})}), body_inputs(),
                                 joined(body_outputs(), {value_info("v1", {4}), value_info("twice", {4})}));
  return model(
      joined(joined({node("Abs", {"x"}, {"shift"})}, is_small("x", "go")),
             {node("Loop", {most, "go", "x"}, {"last", "all", "before"}, graph_attribute("body", body)),
              node("Mul", {"all", "fifty"}, {"y"})}),
      joined(tensors(), {integers("twelve", {}, {12})}), "", {"before", "last"});
}

// The rows of what is collected, without what is behind the length.
Doubles meant(NamedTensors& found, const std::string& name) {
  Doubles all = found[name].to_doubles();
  all.resize(static_cast<size_t>(found[name + ".length"].as<int64_t>()[0]) * 4);
  return all;
}

void expect_collects(Session& session, const Doubles& x, int64_t most) {
  NamedTensors found = session.run("forward", x_of(x));
  Doubles all, before;
  for (int64_t steps = 1; steps <= most && expected(x, steps) != expected(x, steps - 1); ++steps) {
    for (const double value : expected(x, steps - 1)) before.push_back(2 * value);
    for (const double value : expected(x, steps)) all.push_back(50 * value);
  }
  EXPECT_EQ(meant(found, "y"), all);
  EXPECT_EQ(meant(found, "before"), before);
  EXPECT_EQ(found["last"].to_doubles(), expected(x, most));
}

const std::vector<Doubles> kStarts = {{1, 2, 3, 4}, {0.25, 0, -0.5, 1}, {100, 2, 3, 4}};

TEST(OnnxLoop, CollectsARowOfEachStep) {
  Session twelve(imported(collecting("twelve")), {.device = "cpu"});
  Session given(import_file(file_of(collecting("")), {}, nullptr, {.steps = {{"n_Loop", 20}}}),
                {.device = "cpu"});
  Session few(import_file(file_of(collecting("twelve")), {}, nullptr, {.steps = {{"n_Loop", 2}}}),
              {.device = "cpu"});
  for (const Doubles& x : kStarts) expect_collects(twelve, x, 12), expect_collects(given, x, 20);
  EXPECT_EQ(twelve.run("forward", x_of(kStarts[0]))["y"].shape(), (Shape{12, 4}));
  EXPECT_NE(expected(kStarts[1], 3), expected(kStarts[1], 2));
  const std::string problem = error_of([&] { few.run("forward", x_of(kStarts[1])); });
  EXPECT_NE(problem.find("goes on: give it more rows"), std::string::npos) << problem;
}

// A program cuts what is collected to the steps that ran, and has one model for all inputs.
TEST(OnnxLoop, WhatAProgramCollectsHasTheLengthOfTheRun) {
  models::onnx::Program program(file_of(collecting("twelve")));
  std::set<int64_t> lengths;
  for (const Doubles& x : kStarts) {
    int64_t steps = 0;
    while (steps < 12 && expected(x, steps + 1) != expected(x, steps)) ++steps;
    EXPECT_EQ(program.run(x_of(x))["y"].shape(), (Shape{steps, 4})) << x[0];
    lengths.insert(steps);
  }
  EXPECT_EQ(lengths.size(), 3u);
  EXPECT_EQ(program.variants(), 1u);
}

std::string problem_of(const std::vector<std::string>& nodes, std::vector<std::string> outputs,
                       const std::vector<std::string>& results = {"y"}) {
  const std::string body = graph(nodes, body_inputs(), outputs);
  return error_of([&] {
    imported(model(joined(joined({node("Abs", {"x"}, {"shift"})}, is_small("x", "go")),
                          {node("Loop", {"", "go", "x"}, results, graph_attribute("body", body))}),
                   tensors()));
  });
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(OnnxLoop, WhatNoLoopCanDoIsRefusedInWords) {
  const auto growing =
      joined({node("Concat", {"v", "v"}, {"v1"}, attribute("axis", 0))}, is_small("v1", "c1"));
  const std::string type = problem_of(growing, body_outputs());
  expect_has(type, "the value 'v' that it carries is f32[4] before a step and f32[8] behind it");
  expect_has(type, "n_Loop");
  const std::string limit =
      problem_of(step_nodes(), joined(body_outputs(), {value_info("v1", {4})}), {"y", "all"});
  expect_has(limit, "it collects 'all' step by step");
  expect_has(limit, "no number of at most 1048576 says how many steps it takes");
  expect_has(limit, "--set n_Loop.steps=1000");
  const std::string needless = error_of([&] {
    import_file(file_of(while_small("")), {}, nullptr, {.steps = {{"n_Loop", 20}}});
  });
  expect_has(needless, "it collects nothing: leave out --set n_Loop.steps");
  // The model has no entry point that nobody runs.
  EXPECT_EQ(problem_of(step_nodes(), body_outputs()), "");
}

}  // namespace
}  // namespace genesis
