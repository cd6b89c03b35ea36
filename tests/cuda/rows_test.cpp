// Tests kernels over rows, which choose by shape how they work: in registers, in shared memory, in several passes, or
// by many blocks. Each gives the results of the CPU. Skipped without a GPU.
#include <cmath>
#include <cstring>

#include "passes/training/autodiff.h"
#include "schema/core/philox.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/cast_group.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/cuda/on_gpu.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

using Named = std::vector<std::pair<std::string, Value>>;
using Given = std::vector<std::pair<std::string, Tensor>>;

// Returns numbers in [-bound, bound).
Tensor reals(DType dtype, const std::vector<int64_t>& shape, uint64_t stream, double bound = 2) {
  const TensorType type{dtype, Shape::of(shape)};
  std::vector<float> values(static_cast<size_t>(type.numel()));
  fill_uniform(values, 11, stream, -bound, bound);
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T element = static_cast<T>(values[i]);
      std::memcpy(data + i * sizeof(T), &element, sizeof(T));
    }
  });
  return tensor;
}

// Returns targets in which every seventh row does not count.
Tensor targets(int64_t rows, int64_t classes) {
  std::vector<int64_t> values(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i)
    values[static_cast<size_t>(i)] = i % 7 == 3 ? -100 : (i * 37 + 1) % classes;
  return Tensor::of<int64_t>({rows}, values);
}

void expect_near(const Tensor& got, const Tensor& expected, double tolerance) {
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  ASSERT_EQ(a.size(), b.size());
  double worst = 0;
  size_t place = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    if (!(error <= worst)) worst = error, place = i;
  }
  EXPECT_LE(worst, tolerance) << "at " << place << ": " << a[place] << ", on the CPU " << b[place];
}

// `tolerance` is by result name: bf16 has 8 significant bits, and sums over rows are added in another order.
void compare(const Given& inputs, const std::function<Named(const Inputs&)>& build,
             const std::function<double(const std::string&)>& tolerance) {
  const NamedTensors expected = run_graph(inputs, build), got = run_graph(inputs, build, {.device = "cuda"});
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    expect_near(got.at(name), tensor, tolerance(name));
  }
}

double rounding_of(DType dtype) { return is_low_precision(dtype) ? 0.02 : 2e-5; }

struct Rows {
  DType dtype;
  int64_t rows, n;
};

std::string name_of_case(const char* what, const Rows& r) {
  return fmt::format("{} {} [{},{}]", what, name_of(r.dtype), r.rows, r.n);
}

using RowsOnGpu = OnGpu;

TEST_F(RowsOnGpu, GradientsOfNorms) {
  for (const Rows& r :
       {Rows{DType::bf16, 3001, 896}, Rows{DType::bf16, 1500, 768}, Rows{DType::bf16, 700, 4096},
        Rows{DType::f16, 301, 8192}, Rows{DType::f32, 300, 8192}, Rows{DType::f32, 5, 1024},
        Rows{DType::f32, 2111, 1024}, Rows{DType::bf16, 5000, 24}, Rows{DType::bf16, 9000, 8},
        Rows{DType::f32, 900, 11}, Rows{DType::bf16, 40, 16384}, Rows{DType::f64, 200, 96}})
    for (const bool center : {false, true})
      for (const bool all : {false, true}) {
        const char* name = center ? "layer_norm_grad" : "rms_norm_grad";
        SCOPED_TRACE(name_of_case(name, r) + (all ? " with everything" : ""));
        const auto build = [&](const Inputs& x) {
          Attributes attributes;
          attributes.set("has_weight", true);
          attributes.set("want_weight", true);
          if (center) attributes.set("want_bias", true);
          std::vector<Value> inputs = {x[0], x[1], x[2]};
          if (all) {
            attributes.set("has_residual", true);
            attributes.set("with_output", true);
            if (center) {
              attributes.set("has_bias", true);
              inputs.push_back(x[3]);
            }
            inputs.push_back(x[4]);
          }
          const std::vector<Value> y = emit_node(*find_op(name), attributes, inputs);
          Named named = {{"dx", y[0]}, {"sum of rows", y[1]}};
          if (center) named.emplace_back("sum of dy", y[2]);
          if (all) named.emplace_back("output", y.back());
          return named;
        };
        const DType weight = r.dtype == DType::f64 ? DType::f64 : DType::f32;
        compare({{"x", reals(r.dtype, {r.rows, r.n}, 1)},
                 {"dy", reals(r.dtype, {r.rows, r.n}, 2)},
                 {"w", reals(weight, {r.n}, 3)},
                 {"b", reals(weight, {r.n}, 4)},
                 {"past", reals(r.dtype, {r.rows, r.n}, 5)}},
                build,
                [&](const std::string& result) { return result[0] == 's' ? 2e-4 : rounding_of(r.dtype); });
      }
}

TEST_F(RowsOnGpu, CrossEntropy) {
  for (const Rows& r : {Rows{DType::bf16, 5000, 1024}, Rows{DType::f32, 3000, 1024},
                        Rows{DType::bf16, 64, 16384}, Rows{DType::f32, 90, 9000}, Rows{DType::f32, 1000, 50},
                        Rows{DType::bf16, 33, 50257}, Rows{DType::f32, 70000, 8}, Rows{DType::f64, 300, 100}})
    for (const Reduction reduction : {Reduction::kMean, Reduction::kNone}) {
      SCOPED_TRACE(name_of_case("cross_entropy", r));
      const auto build = [&](const Inputs& x) {
        const Value loss = cross_entropy(x[0], x[1], {.reduction = reduction});
        const Value total = reduction == Reduction::kNone ? sum(loss) : loss * 1000.0;
        return Named{{"loss", loss}, {"dx", passes::gradients(x.graph, total, {x[0]})[0]}};
      };
      compare({{"x", reals(r.dtype, {r.rows, r.n}, 1)}, {"t", targets(r.rows, r.n)}}, build,
              [&](const std::string& result) { return result == "loss" ? 2e-5 : rounding_of(r.dtype); });
    }
}

TEST_F(RowsOnGpu, LinearCrossEntropy) {
  // Logits are sums of 64 products and stay within +-4, where bf16 still resolves 1/64.
  constexpr double kWeight = 0.12;
  for (const Rows& r :
       {Rows{DType::bf16, 130, 151936}, Rows{DType::bf16, 200, 50257}, Rows{DType::f32, 150, 1003},
        Rows{DType::f32, 20, 70000}, Rows{DType::f16, 150, 4096}})
    for (const double smoothing : {0.0, 0.1}) {
      SCOPED_TRACE(name_of_case("linear_cross_entropy", r));
      const auto build = [&](const Inputs& x) {
        const Value loss = linear_cross_entropy(x[0], x[1], x[2], {.label_smoothing = smoothing});
        const std::vector<Value> gradients = passes::gradients(x.graph, loss * 64.0, {x[0], x[1]});
        return Named{{"loss", loss}, {"dx", cast(gradients[0], DType::f32)}, {"dw", gradients[1]}};
      };
      compare({{"x", reals(r.dtype, {r.rows, 64}, 1)},
               {"w", reals(r.dtype, {r.n, 64}, 2, kWeight)},
               {"t", targets(r.rows, r.n)}},
              build, [&](const std::string& result) {
                return result == "loss" ? (is_low_precision(r.dtype) ? 5e-3 : 1e-4)
                                        : 2 * rounding_of(r.dtype);
              });
    }
}

// Numbers whose products are exact in bf16, so that rounding of logits cannot hide the parts of a loss of 4000: in
// some rows the target's logit is that far below the largest.
struct SteepRows {
  static constexpr int64_t kRows = 300, kClasses = 5003, kHidden = 64;
  std::vector<float> x, weight;

  SteepRows() : x(kRows * kHidden), weight(kClasses * kHidden) {
    for (int64_t row = 0; row < kRows; ++row)
      x[static_cast<size_t>(row * kHidden + row % kHidden)] = row % 5 == 1 ? 512 : row % 5 == 2 ? -64 : 1;
    for (int64_t i = 0; i < kClasses * kHidden; ++i)
      weight[static_cast<size_t>(i)] =
          static_cast<float>((i / kHidden * 31 + i % kHidden * 17) % 64 - 32) / 8;
  }
  Given given() const {
    return {{"x", Tensor::of<float>({kRows, kHidden}, x)},
            {"w", Tensor::of<float>({kClasses, kHidden}, weight)},
            {"t", targets(kRows, kClasses)}};
  }
  static Named build(const Inputs& in) {
    const Value x = cast(in[0], DType::bf16), weight = cast(in[1], DType::bf16);
    const Value loss = linear_cross_entropy(x, weight, in[2]);
    const std::vector<Value> gradients = passes::gradients(in.graph, loss * 64.0, {x, weight});
    return {{"loss", loss}, {"dx", cast(gradients[0], DType::f32)}, {"dw", cast(gradients[1], DType::f32)}};
  }
};

TEST_F(RowsOnGpu, LinearCrossEntropyFarFromItsTargets) {
  compare(SteepRows().given(), SteepRows::build,
          [](const std::string& result) { return result == "loss" ? 5e-3 : rounding_of(DType::bf16); });
}

// A row with NaN or infinity gives a gradient that is not finite, and the other rows give theirs. A row that does not
// count gives zeros in any case.
TEST_F(RowsOnGpu, LinearCrossEntropyOfRowsThatAreNotNumbers) {
  SteepRows steep;
  const auto is_bad = [](int64_t row) { return row == 8 || row == 51; };
  steep.x[8 * SteepRows::kHidden + 5] = NAN;
  steep.x[51 * SteepRows::kHidden] = INFINITY;
  steep.x[10 * SteepRows::kHidden] = INFINITY;  // this row does not count
  const NamedTensors got = run_graph(steep.given(), SteepRows::build, {.device = "cuda"});
  EXPECT_TRUE(std::isnan(got.at("loss").to_doubles()[0]));
  const std::vector<double> dx = got.at("dx").to_doubles();
  for (int64_t i = 0; i < SteepRows::kRows * SteepRows::kHidden; ++i) {
    const int64_t row = i / SteepRows::kHidden;
    const double d = dx[static_cast<size_t>(i)];
    if (row == 10)
      ASSERT_EQ(d, 0) << i;
    else
      ASSERT_EQ(std::isnan(d), is_bad(row)) << i;
  }
}

// Compares sums over rows with sums in double. In any order an element goes through at most kDepth additions (those
// of its thread, then trees over threads and chunks). Each loses at most a unit roundoff of the sum of magnitudes;
// the result is rounded once more.
void expect_column_sums(const Tensor& got, const Tensor& x) {
  constexpr double kDepth = 128;
  const DType dtype = x.type().dtype;
  const double wide = dtype == DType::f64 ? 0x1p-53 : 0x1p-24, last = dtype == DType::bf16 ? 0x1p-8 : wide;
  const std::vector<double> sums = got.to_doubles(), values = x.to_doubles();
  const size_t n = sums.size();
  std::vector<double> exact(n), magnitude(n);
  for (size_t i = 0; i < values.size(); ++i) {
    exact[i % n] += values[i];
    magnitude[i % n] += std::abs(values[i]);
  }
  for (size_t i = 0; i < n; ++i)
    ASSERT_LE(std::abs(sums[i] - exact[i]), kDepth * wide * magnitude[i] + last * std::abs(exact[i])) << i;
}

TEST_F(RowsOnGpu, Columns) {
  for (const Rows& r :
       {Rows{DType::bf16, 16389, 1024}, Rows{DType::f32, 16389, 1024}, Rows{DType::bf16, 8192, 1152},
        Rows{DType::f32, 100, 7}, Rows{DType::f64, 3000, 33}, Rows{DType::bf16, 1, 64}}) {
    SCOPED_TRACE(name_of_case("columns", r));
    const Tensor x = reals(r.dtype, {r.rows, r.n}, 1);
    const auto total = [](const Inputs& in) { return Named{{"sum", sum(in[0], {0})}}; };
    expect_column_sums(run_graph({{"x", x}}, total, {.device = "cuda"}).at("sum"), x);
    const auto build = [&](const Inputs& in) {
      return Named{{"max", max(in[0], {0})}, {"var", var(in[0], {0}, 0)}, {"argmax", argmax(in[0], 0)}};
    };
    compare({{"x", x}}, build,
            [&](const std::string& result) { return result == "var" ? rounding_of(r.dtype) : 0; });
  }
}

// Casts more tensors than one launch takes, of all sizes, and compares with the bits of the CPU.
TEST_F(RowsOnGpu, CastsOfManyTensors) {
  Given inputs;
  for (int64_t i = 0; i < 1100; ++i)
    inputs.emplace_back("x" + std::to_string(i), reals(DType::f32, {i % 50, 3}, 1));
  inputs.emplace_back("large", reals(DType::f32, {70001, 3}, 2));
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto build = [&](const Inputs& x) {
      std::vector<std::vector<Value>> parts;
      for (size_t i = 0; i + 2 < x.values.size(); i += 3) parts.push_back({x[i], x[i + 1], x[i + 2]});
      for (size_t i = x.values.size() / 3 * 3; i < x.values.size(); ++i) parts.push_back({x[i]});
      parts.push_back({x.values.back()});
      Named named;
      for (const Value& value : cast_group(parts, dtype))
        named.emplace_back("y" + std::to_string(named.size()), value);
      return named;
    };
    compare(inputs, build, [](const std::string&) { return 0; });
  }
}

}  // namespace
}  // namespace genesis
