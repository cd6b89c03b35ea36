// Tests what compare accepts as rounding: results that differ like sums in another order pass, and real mistakes do
// not.
#include "executor/inspection/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "executor/session.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

std::vector<float> noise(size_t count, unsigned seed, float mean = 0) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> values(count);
  for (float& x : values) x = normal(engine);
  return values;
}

Step product_step(int64_t m, int64_t k, int64_t n) {
  Step step{.op = find_op("matmul"), .name = "product"};
  step.input_types = {{DType::f32, {m, k}}, {DType::f32, {k, n}}};
  step.output_types = {{DType::f32, {m, n}}};
  step.inputs = {{Space::kState, 0, 0, m * k * 4}, {Space::kState, 1, 0, k * n * 4}};
  step.outputs = {{Space::kArena, 0, 0, m * n * 4}};
  return step;
}

TensorView view(std::vector<float>& values, int64_t rows, int64_t columns) {
  TensorView view{.data = values.data(), .dtype = DType::f32, .rank = 2};
  view.dims[0] = rows;
  view.dims[1] = columns;
  return view;
}

// Returns the largest |a - b| relative to the element or the root mean square of a, whichever is larger.
double largest_error(const std::vector<float>& a, const std::vector<float>& b) {
  const double size = root_mean_square(std::vector<double>(a.begin(), a.end()));
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double(a[i]) - b[i]) / std::max(size, std::abs(double(a[i]))));
  return largest;
}

// Returns c = a b with the terms of each sum added from first to last, or in another order.
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t k,
                           int64_t n, int64_t stride, int64_t left_out = 0) {
  std::vector<float> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t start = 0; start < stride; ++start)
        for (int64_t t = start; t < k - left_out; t += stride)
          sum += a[static_cast<size_t>(i * k + t)] * b[static_cast<size_t>(t * n + j)];
      c[static_cast<size_t>(i * n + j)] = sum;
    }
  return c;
}

TEST(RoundingModel, AnotherOrderOfASumPassesAndATermLeftOutDoesNot) {
  const int64_t m = 16, n = 16;
  for (const int64_t k : {1, 7, 64, 1000, 8192})
    for (const float mean : {0.f, 0.5f}) {
      const auto a = noise(static_cast<size_t>(m * k), 1, mean),
                 b = noise(static_cast<size_t>(k * n), 2, mean);
      auto c = product(a, b, m, k, n, 1);
      Rounding rounding;
      const TensorView out[] = {view(c, m, n)};
      const double allowed =
          kRoundingSafety * std::sqrt(2.0) * rounding.step(product_step(m, k, n), {}, out)[0];
      EXPECT_LE(largest_error(c, product(a, b, m, k, n, 7)), allowed) << k;
      EXPECT_LT(allowed, 1e-3) << k;
      const auto short_sum = product(a, b, m, k, n, 1, 1);
      EXPECT_TRUE(k == 1 || largest_error(c, short_sum) > allowed) << k;
      auto scaled = c;
      scaled[3] *= 1.01f;
      const bool is_large = std::abs(c[3]) > 0.5 * std::sqrt(double(k));
      EXPECT_TRUE(!is_large || largest_error(c, scaled) > allowed) << k;
    }
}

TEST(RoundingModel, OpsSayHowManyTermsTheySum) {
  Model model;
  Graph graph(model, "loss");
  const auto input = [&](Shape shape, DType dtype = DType::f32) {
    return graph.add_input("x" + std::to_string(graph.values().size()), {dtype, std::move(shape)});
  };
  const auto terms = [&](const Value&) {
    const Node& node = graph.nodes().back();
    std::vector<TensorType> outputs;
    for (const ValueId id : node.outputs) outputs.push_back(graph.type(id));
    return sum_length_of(*node.op, node.attributes, graph.input_types(node), outputs);
  };
  const Value x = input({4, 6, 8}), rows = input({6, 8});
  EXPECT_EQ(terms(relu(x)), 1);
  EXPECT_EQ(terms(sum(x, {0, 1})), 24);
  EXPECT_EQ(terms(cumsum(x, 0)), 8);
  EXPECT_EQ(terms(softmax(x)), 8);
  EXPECT_EQ(terms(rms_norm(x)), 8);
  EXPECT_EQ(terms(index_add(rows, 0, input({9}, DType::i64), input({9, 8}))), 7);
  EXPECT_EQ(terms(matmul(x, input({8, 3}))), 8);
  EXPECT_EQ(terms(matmul(rows, rows, true)), 6);
  EXPECT_EQ(terms(linear(x, input({3, 8}))), 8);
  EXPECT_EQ(terms(linear_cross_entropy(x, input({5, 8}), input({4, 6}, DType::i64))), 8 + 5 + 4 * 6);
  const Value q = input({2, 3, 5, 8}), k = input({2, 1, 7, 8});
  EXPECT_EQ(terms(attention(q, k, k, {.layout = AttentionLayout::kBHTD})), 8 + 7);
}

TEST(RoundingModel, ErrorsGrowWithDepthAndWithSumsButNotByCopies) {
  Rounding rounding;
  std::vector<float> values = noise(16 * 16, 3);
  const TensorView out[] = {view(values, 16, 16)};
  Step step = product_step(16, 16, 16);
  const double first = rounding.step(step, {}, out)[0];
  step.inputs[0] = step.outputs[0];
  step.outputs[0].offset = 1024;
  const double second = rounding.step(step, {}, out)[0];
  EXPECT_NEAR(second, first * std::sqrt(2.0), first * 0.01);
  Rounding longer;
  EXPECT_GT(longer.step(product_step(16, 4096, 16), {}, out)[0], 2 * first);
  Step copy{.op = find_op("reshape"), .name = "copy"};
  copy.input_types = copy.output_types = {{DType::f32, {16, 16}}};
  copy.inputs = step.outputs;
  copy.outputs = {{Space::kArena, 0, 4096, 1024}};
  EXPECT_DOUBLE_EQ(rounding.step(copy, {}, out)[0], second);
}

using Compare = ToolTest;

Words compare_words(const std::string& file, const std::string& entry, const std::string& a,
                    const std::string& b) {
  return {"compare", file,  "--entry", entry, "--size", "batch=4", "--size",
          "seq=16",  "--a", a,         "--b", b,        "--json"};
}

TEST_F(Compare, RunsThatPromiseTheSameBitsMustHaveThem) {
  for (const char* b : {"threads=4", "disable=in_place+memory_reuse", ""}) {
    const auto json =
        expect_json(run_tool("genesis-run", compare_words(tiny("gpt2.genesis"), "loss", "threads=1", b)));
    EXPECT_EQ(json["tolerance"], 0.0) << b;
    EXPECT_EQ(json["differs"], false) << b;
  }
}

TEST_F(Compare, PassesMayRoundElsewhere) {
  for (const char* model : {"gpt2", "qwen2", "qwen3"})
    for (const char* entry : {"loss", "train_step"}) {
      const auto json =
          expect_json(run_tool("genesis-run", compare_words(tiny(std::string(model) + ".train.genesis"),
                                                            entry, "optimize=off", "")));
      EXPECT_EQ(json["tolerance"], "rounding");
      EXPECT_EQ(json["differs"], false) << model << " " << entry << json.dump();
      EXPECT_GT(json["compared"], 20);
    }
  expect_ok(
      run_tool("genesis-build", {"gpt2", "--set", "dtype=bf16", "--set", "n_embd=16", "--set", "n_head=2",
                                 "--set", "n_layer=2", "--set", "n_positions=16", "-o", path("b.genesis")}));
  const auto json =
      expect_json(run_tool("genesis-run", compare_words(path("b.genesis"), "loss", "optimize=off", "")));
  EXPECT_EQ(json["differs"], false) << json.dump();
}

}  // namespace
}  // namespace genesis::testing
