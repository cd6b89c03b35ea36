// Tests linear over rows that are entries of a batch, x [rows, 1, k]: on the CPU each row has the bits that it has
// alone, for every number of rows. Rows of x [1, rows, k] belong together and may be added in another order.
#include <cmath>
#include <cstring>

#include "builder/genesis.h"
#include "executor/session.h"
#include "passes/precision/quantize.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

struct Product {
  int64_t k, n;
  DType dtype;
  WeightFormat format = WeightFormat::kPlain;
  bool swiglu = false;
};

// Returns one product of x, or up and gate with their swiglu; weights and a bias have numbers of all magnitudes.
std::shared_ptr<const Model> make(const Product& p) {
  auto model = std::make_shared<Model>();
  const Scope scope(*model, 5, p.dtype);
  const Shape shape = {p.n, p.k};
  const Parameter weight = scope.parameter("weight", shape, init::normal(0, 0.5)),
                  gate = scope.parameter("gate", shape, init::normal(0, 0.5)),
                  bias = scope.parameter("bias", {p.n}, init::normal(0, 1));
  GraphBuilder g(*model, "main");
  const Value x = cast(g.input("x", DType::f32, {symbol("rows"), 1, p.k}), p.dtype);
  const Value y = p.swiglu ? silu(linear(x, g.value(gate))) * linear(x, g.value(weight))
                           : linear(x, g.value(weight), g.value(bias));
  g.output("y", y);
  if (p.format != WeightFormat::kPlain) passes::quantize(*model, {.format = p.format, .head = true});
  return model;
}

Tensor rows_of(const Product& p, int64_t first, int64_t count) {
  std::vector<float> values;
  for (int64_t i = first * p.k; i < (first + count) * p.k; ++i)
    values.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i)) * (1 + i % 13)));
  return Tensor::of<float>({count, 1, p.k}, values);
}

void expect_rows_alone(const Product& p) {
  SCOPED_TRACE(fmt::format("k {}, n {}, {}, format {}{}", p.k, p.n, name_of(p.dtype),
                           static_cast<int>(p.format), p.swiglu ? ", swiglu" : ""));
  constexpr int64_t kMost = 135;
  Session session(make(p), {.threads = 2});
  std::vector<Tensor> alone;
  for (int64_t row = 0; row < kMost; ++row)
    alone.push_back(session.run("main", {{"x", rows_of(p, row, 1)}}).at("y"));
  for (const int64_t rows : {2, 7, 9, 13, 17, 24, 41, 65, 100}) {
    const Tensor y = session.run("main", {{"x", rows_of(p, kMost - rows, rows)}}).at("y");
    const auto bytes = static_cast<size_t>(alone[0].bytes());
    for (int64_t row = 0; row < rows; ++row)
      ASSERT_EQ(std::memcmp(y.data() + static_cast<size_t>(row) * bytes,
                            alone[static_cast<size_t>(kMost - rows + row)].data(), bytes),
                0)
          << "row " << row << " of " << rows;
  }
}

TEST(RowsAlone, EveryDtypeAndDepth) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const int64_t k : {40, 130, 320})
      for (const bool swiglu : {false, true}) expect_rows_alone({k, 37, dtype, WeightFormat::kPlain, swiglu});
}

TEST(RowsAlone, QuantizedWeights) {
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int64_t k : {64, 320})
        for (const bool swiglu : {false, true}) expect_rows_alone({k, 37, dtype, format, swiglu});
}

}  // namespace
}  // namespace genesis
