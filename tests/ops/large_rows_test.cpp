// Tests results too large for the caches, which are written by other instructions (non-temporal stores), with rows
// spread over threads. A large tensor of repeated rows must give the bits of the few rows that it repeats.
#include <cstring>

#include "passes/training/autodiff.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr int64_t kColumns = 1024, kPeriod = 3;
constexpr int64_t kLargeBytes = 33 << 20;

// Returns [rows, kColumns] in which row i equals row i % kPeriod.
template <class T>
Tensor repeating(int64_t rows, int seed) {
  std::vector<T> period(kPeriod * kColumns);
  for (size_t i = 0; i < period.size(); ++i)
    period[i] = T(static_cast<float>((i * 37 + static_cast<size_t>(seed)) % 101) / 25 - 2);
  std::byte* data;
  const Tensor tensor = Tensor::uninitialized({dtype_of<T>(), {rows, kColumns}}, &data);
  constexpr size_t kRowBytes = kColumns * sizeof(T);
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(data + static_cast<size_t>(row) * kRowBytes, period.data() + row % kPeriod * kColumns,
                kRowBytes);
  return tensor;
}

Tensor classes(int64_t rows) {
  std::vector<int64_t> values(static_cast<size_t>(rows));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i % kPeriod * 100);
  return Tensor::of<int64_t>({rows}, values);
}

using Rule = std::function<Value(Value x, Value classes)>;

template <class T>
NamedTensors run_rows(int64_t rows, const Rule& rule) {
  return run_graph({{"x", repeating<T>(rows, 0)}, {"dy", repeating<T>(rows, 5)}, {"t", classes(rows)}},
                   [&](const Inputs& in) {
                     const Value y = rule(in[0], in[2]);
                     const Value loss = y.rank() == 2 ? sum(y * in[1]) : sum(y);
                     const Value dx = passes::gradients(in.graph, loss, {in[0]})[0];
                     return std::vector<std::pair<std::string, Value>>{{"y", y}, {"dx", dx}};
                   });
}

template <class T>
void check_rows(const std::string& name, const Rule& rule) {
  SCOPED_TRACE(name);
  const int64_t rows = kLargeBytes / static_cast<int64_t>(kColumns * sizeof(T)) / kPeriod * kPeriod;
  const NamedTensors large = run_rows<T>(rows, rule), small = run_rows<T>(kPeriod, rule);
  for (const char* result : {"y", "dx"}) {
    const Tensor &got = large.at(result), &expected = small.at(result);
    const auto bytes = static_cast<size_t>(expected.bytes());
    for (int64_t at = 0; at < rows / kPeriod; ++at)
      ASSERT_EQ(std::memcmp(got.data() + static_cast<size_t>(at) * bytes, expected.data(), bytes), 0)
          << result << " of rows from " << at * kPeriod;
  }
}

void check_both(const std::string& name, const Rule& rule) {
  check_rows<float>(name + " f32", rule);
  check_rows<bf16>(name + " bf16", rule);
}

TEST(LargeRows, GiveTheBitsOfSmallOnes) {
  check_both("softmax", [](Value x, Value) { return softmax(x); });
  check_both("log_softmax", [](Value x, Value) { return log_softmax(x); });
  check_both("layer_norm", [](Value x, Value) { return layer_norm(x); });
  check_both("rms_norm", [](Value x, Value) { return rms_norm(x); });
  check_both("cross_entropy",
             [](Value x, Value t) { return cross_entropy(x, t, {.reduction = Reduction::kNone}); });
}

}  // namespace
}  // namespace genesis::testing
