// Tests the loss of rows of which most have no target. A captured graph multiplies only the rows that count, and each
// of its runs determines them anew. Skipped without a GPU.
#include <cmath>
#include <cstring>

#include "executor/session.h"
#include "passes/training/autodiff.h"
#include "schema/core/philox.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "tests/cuda/on_gpu.h"

namespace genesis {
namespace {

using namespace testing;

using CountedRowsOnGpu = OnGpu;

// The logits take 1.3 GB: three blocks of rows on the GPU.
constexpr int64_t kRows = 4500, kClasses = 151936, kHidden = 64;

Tensor low(const std::vector<int64_t>& shape, uint64_t stream, double bound) {
  std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
  fill_uniform(values, 11, stream, -bound, bound);
  std::byte* data;
  const Tensor tensor = Tensor::uninitialized({DType::bf16, Shape::of(shape)}, &data);
  for (size_t i = 0; i < values.size(); ++i) {
    const bf16 element(values[i]);
    std::memcpy(data + i * sizeof(element), &element, sizeof(element));
  }
  return tensor;
}

// Returns targets for about this share of the rows; 0: none.
Tensor targets(double share) {
  std::vector<int64_t> values(static_cast<size_t>(kRows));
  std::vector<float> draws(values.size());
  fill_uniform(draws, 7, 3, 0, 1);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = draws[i] < share ? (static_cast<int64_t>(i) * 7919 + 1) % kClasses : -100;
  return Tensor::of<int64_t>({kRows}, values);
}

std::shared_ptr<Model> loss_and_gradients() {
  auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");
  const Value x = graph.add_input("x", {DType::bf16, Shape::of({kRows, kHidden})}),
              w = graph.add_input("w", {DType::bf16, Shape::of({kClasses, kHidden})}),
              t = graph.add_input("t", {DType::i64, Shape::of({kRows})});
  const Value loss = linear_cross_entropy(x, w, t);
  const std::vector<Value> gradients = passes::gradients(graph, loss * 64.0, {x, w});
  graph.add_output("loss", loss);
  graph.add_output("dx", gradients[0]);
  graph.add_output("dw", gradients[1]);
  return model;
}

void expect_near(const Tensor& got, const Tensor& expected, double relative) {
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  ASSERT_EQ(a.size(), b.size());
  double largest = 0, worst = 0;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
    if (!std::isnan(a[i])) worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(worst, relative * largest);
}

// The graph is captured once. A run that took too few rows would miss their gradients, and one that reused the
// previous run's rows would have extra gradients.
TEST_F(CountedRowsOnGpu, EachRunTakesThoseThatCount) {
  const std::shared_ptr<Model> model = loss_and_gradients();
  Session gpu(model, {.device = "cuda"}), cpu(model, {});
  const NamedTensors same{{"x", low({kRows, kHidden}, 1, 2)}, {"w", low({kClasses, kHidden}, 2, 0.12)}};
  for (const double share : {1.0, 0.6, 0.0, 0.0005, 0.35, 0.9, 0.15}) {
    SCOPED_TRACE(share);
    NamedTensors inputs = same;
    inputs["t"] = targets(share);
    const NamedTensors got = gpu.run("main", inputs), expected = cpu.run("main", inputs);
    expect_near(got.at("loss"), expected.at("loss"), 1e-3);
    expect_near(got.at("dx"), expected.at("dx"), 0.02);
    expect_near(got.at("dw"), expected.at("dw"), 0.02);
  }
}

// A row that does not count affects nothing, whatever its values.
TEST_F(CountedRowsOnGpu, OthersReachNothing) {
  const std::shared_ptr<Model> model = loss_and_gradients();
  Session gpu(model, {.device = "cuda"});
  NamedTensors inputs{
      {"x", low({kRows, kHidden}, 1, 2)}, {"w", low({kClasses, kHidden}, 2, 0.12)}, {"t", targets(0.6)}};
  const NamedTensors clean = gpu.run("main", inputs);
  std::byte* data;
  const Tensor bad = Tensor::uninitialized(inputs.at("x").type(), &data);
  std::memcpy(data, inputs.at("x").data(), static_cast<size_t>(bad.type().bytes()));
  const std::vector<double> counts = inputs.at("t").to_doubles();
  for (int64_t row = 0; row < kRows; ++row)
    if (counts[static_cast<size_t>(row)] < 0)
      std::memset(data + row * kHidden * 2, 0xFF, kHidden * 2);  // NaN
  inputs["x"] = bad;
  const NamedTensors got = gpu.run("main", inputs);
  for (const char* name : {"loss", "dx", "dw"})
    EXPECT_EQ(got.at(name).to_doubles(), clean.at(name).to_doubles()) << name;
}

}  // namespace
}  // namespace genesis
