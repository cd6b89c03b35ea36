// Tests the fused op: programs against the ops they are made of, bit for bit in f32; its text form, rules and errors.
#include "schema/ops/elementwise/fused.h"

#include <cstring>
#include <random>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using NamedInputs = std::vector<std::pair<std::string, Tensor>>;
using Build = std::function<Outputs(const Inputs&)>;

Tensor random_tensor(std::vector<int64_t> sizes, DType dtype = DType::f32) {
  std::mt19937 random(static_cast<unsigned>(sizes.size() * 131 + 7));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(Shape::of(sizes).numel().value()));
  for (float& v : values) v = normal(random);
  const Tensor tensor = Tensor::of<float>(sizes, values);
  if (dtype == DType::f32) return tensor;
  return run_graph({{"x", tensor}},
                   [&](const Inputs& x) {
                     return std::vector<std::pair<std::string, Value>>{{"y", cast(x[0], dtype)}};
                   })
      .begin()
      ->second;
}

std::vector<Tensor> results_of(const std::vector<Tensor>& tensors, const Build& build) {
  NamedInputs inputs;
  for (size_t i = 0; i < tensors.size(); ++i) inputs.emplace_back("x" + std::to_string(i), tensors[i]);
  size_t count = 0;
  // Optimization is off, so that no pass replaces what is compared.
  SessionOptions options;
  options.optimize = false;
  const NamedTensors named = run_graph(
      inputs,
      [&](const Inputs& x) {
        std::vector<std::pair<std::string, Value>> outputs;
        for (Value y : build(x)) outputs.emplace_back("y" + std::to_string(count++), y);
        return outputs;
      },
      options);
  std::vector<Tensor> results;
  for (size_t i = 0; i < count; ++i) results.push_back(named.at("y" + std::to_string(i)));
  return results;
}

void expect_same(const std::vector<Tensor>& inputs, const Build& apart, std::vector<std::string> body,
                 std::vector<int64_t> outputs) {
  const auto expected = results_of(inputs, apart);
  const auto got = results_of(inputs, [&](const Inputs& x) { return fused(x.values, body, outputs); });
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].type(), expected[i].type());
    EXPECT_EQ(std::memcmp(got[i].data(), expected[i].data(), static_cast<size_t>(got[i].bytes())), 0)
        << "result " << i << " of " << body[0];
  }
}

TEST(Fused, ChainOfFive) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {5}, {0, 3}, {7, 33}, {3, 20011}, {600, 300}})
    expect_same(
        {random_tensor(shape), random_tensor(shape)},
        [](const Inputs& x) {
          const Value y = gelu(x[0] * x[1] + x[0]);
          return Outputs{sigmoid(y) - exp(x[1])};
        },
        {"mul %0 %1", "add %2 %0", "gelu %3 {approximate=\"none\"}", "sigmoid %4", "exp %1", "sub %5 %6"},
        {7});
}

TEST(Fused, BroadcastOperandsAndSeveralResults) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {700, 37}, {40, 3000}})
    expect_same({random_tensor({rows, columns}), random_tensor({columns}), random_tensor({rows, 1}),
                 random_tensor({})},
                [](const Inputs& x) {
                  const Value a = x[0] * x[1], b = a + x[2], c = maximum(b, x[3]);
                  return Outputs{a, c, lt(b, x[3])};
                },
                {"mul %0 %1", "add %4 %2", "maximum %5 %3", "lt %5 %3"}, {4, 6, 7});
}

// Results of 16 MB and more are written around the cache, in whole cache lines. Rows of 3331 elements begin anywhere
// in a line.
TEST(Fused, LargeResultsWithRowsThatBeginInsideLines) {
  const int64_t rows = 2600, columns = 3331;
  const Tensor x = random_tensor({rows, columns}), bias = random_tensor({columns});
  const auto got = results_of({x, bias}, [](const Inputs& in) {
    return fused(in.values, {"add %0 %1", "relu %2", "cast %3 {dtype=bf16}"}, {3, 4});
  });
  const auto a = x.as<float>(), b = bias.as<float>(), y = got[0].as<float>();
  const auto low = got[1].as<bf16>();
  for (int64_t i = 0; i < rows * columns; ++i) {
    const size_t at = static_cast<size_t>(i);
    const float expected = std::max(0.0f, a[at] + b[static_cast<size_t>(i % columns)]);
    ASSERT_EQ(y[at], expected) << i;
    ASSERT_EQ(static_cast<float>(low[at]), static_cast<float>(bf16(expected))) << i;
  }
}

// The program has more steps, and more live values, than one chain holds.
TEST(Fused, ALongProgram) {
  std::vector<std::string> body;
  for (int i = 0; i < 40; ++i) body.push_back("add %" + std::to_string(i) + " %0");
  for (int i = 0; i < 40; ++i)
    body.push_back("mul %" + std::to_string(40 + i) + " %" + std::to_string(40 - i));
  expect_same({random_tensor({3, 1777})},
              [](const Inputs& x) {
                std::vector<Value> sums{x[0]};
                for (int i = 0; i < 40; ++i) sums.push_back(sums.back() + x[0]);
                Value y = sums.back();
                for (int i = 0; i < 40; ++i) y = y * sums[static_cast<size_t>(40 - i)];
                return Outputs{y, sums[7]};
              },
              body, {80, 7});
}

TEST(Fused, ConditionsAndBranchesInEveryOrder) {
  expect_same({random_tensor({9, 301}), random_tensor({301}), random_tensor({})},
              [](const Inputs& x) {
                const Value m = lt(x[0], x[1]), a = x[0] * x[2], b = x[1] - x[0];
                return Outputs{where(m, a, b), where(m, b, a), where(isnan(b), x[2], b),
                               where(gt(x[2], x[0]), x[1], x[1]), b * b};
              },
              {"lt %0 %1", "mul %0 %2", "sub %1 %0", "where %3 %4 %5", "where %3 %5 %4", "isnan %5",
               "where %8 %2 %5", "gt %2 %0", "where %10 %1 %1", "mul %5 %5"},
              {6, 7, 9, 11, 12});
}

TEST(Fused, RowOperandsMeetBeforeTheyAreSpread) {
  expect_same({random_tensor({50, 64}), random_tensor({50, 1})},
              [](const Inputs& x) { return Outputs{x[0] * exp(square(x[1]))}; },
              {"square %1", "exp %2", "mul %0 %3"}, {4});
}

TEST(Fused, MixedDtypes) {
  expect_same(
      {random_tensor({9, 130}), random_tensor({9, 130}, DType::i32), random_tensor({130}, DType::i8)},
      [](const Inputs& x) {
        const Value n = x[1] * x[2] + x[2];
        return Outputs{cast(n, DType::i8), where(gt(n, x[2]), x[0], cast(n, DType::f32)),
                       cast(x[0], DType::f64) * 2.0};
      },
      {"mul %1 %2", "add %3 %2", "cast %4 {dtype=i8}", "gt %4 %2", "cast %4 {dtype=f32}", "where %6 %0 %7",
       "cast %0 {dtype=f64}", "full {dtype=f64, shape=[], value=2.0}", "mul %9 %10"},
      {5, 8, 11});
}

TEST(Fused, SoftmaxAsRows) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 3}, {129, 65}, {40, 1000}, {6, 9000}})
    expect_same({random_tensor({rows, columns})},
                [](const Inputs& x) {
                  const Value e = exp(x[0] - max(x[0], {-1}, true)), total = sum(e, {-1}, true);
                  return Outputs{e / total, total};
                },
                {"max %0 {axes=(1), keep_dims=true}", "sub %0 %1", "exp %2",
                 "sum %3 {axes=(1), keep_dims=true}", "div %3 %4"},
                {5, 4});
}

TEST(Fused, NormAsRows) {
  for (const int64_t columns : {1, 8, 100, 4097})
    expect_same({random_tensor({2, 11, columns}), random_tensor({columns})},
                [](const Inputs& x) {
                  const Value scale = rsqrt(mean(square(x[0]), {-1}, true) + 1e-5);
                  return Outputs{x[0] * scale * x[1]};
                },
                {"square %0", "mean %2 {axes=(2), keep_dims=true}", "full {dtype=f32, shape=[], value=1e-05}",
                 "add %3 %4", "rsqrt %5", "mul %0 %6", "mul %7 %1"},
                {8});
}

TEST(Fused, LowPrecisionIsRoundedOnce) {
  const Tensor x = random_tensor({40, 100}, DType::bf16);
  const auto got = results_of({x}, [](const Inputs& in) {
    return fused(in.values, {"exp %0", "mul %1 %0"}, {2});
  });
  const std::vector<double> source = x.to_doubles(), values = got[0].to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    const double exact = std::exp(source[i]) * source[i];
    EXPECT_NEAR(values[i], exact, 0.00391 * std::abs(exact) + 1e-30);
  }
}

// The output may overwrite an input only if nothing reads that input afterwards.
TEST(Fused, InPlaceWhereTheInputIsDone) {
  const TensorType full{DType::f32, {4, 8}}, row{DType::f32, {8}};
  const ops::Fused op{{"mul %0 %1", "add %3 %2", "mul %4 %1"}, {3, 5}};
  const std::vector<TensorType> inputs{full, full, row}, outputs{full, full};
  const OpDef& def = *find_op("fused");
  std::vector<std::pair<int, int>> pairs;
  for (const InPlace& pair : in_place_pairs(def, to_attributes(op), inputs, outputs))
    pairs.emplace_back(pair.output, pair.input);
  // Input 1 is read again after output 0 is made; input 2 is broadcast.
  EXPECT_EQ(pairs, (std::vector<std::pair<int, int>>{{0, 0}, {1, 0}, {1, 1}}));
}

TEST(Fused, TextRoundTrip) {
  const std::vector<TensorType> inputs{{DType::f32, {4, 8}}};
  const ops::Fused op{
      {"clamp %0 {max=inf, min=-1.5}", "gelu %1 {approximate=\"tanh\"}", "sum %2 {axes=(1), keep_dims=true}",
       "expand %3 {shape=[4,8]}", "cast %4 {dtype=bf16}"},
      {5}};
  const FusedProgram program = parse_fused_program(op, inputs);
  for (size_t i = 0; i < op.body.size(); ++i) {
    const FusedOp& line = program.ops[i];
    EXPECT_EQ(fused_op_text(*line.op, line.attributes, line.operands), op.body[i]);
  }
  EXPECT_TRUE(program.has_rows);
  EXPECT_EQ(program.type(5).to_string(), "bf16[4,8]");
}

TEST(Fused, RefusesWhatIsNoProgram) {
  const auto with = [](std::vector<std::string> body, std::vector<int64_t> outputs) {
    return [=] {
      infer_case({{DType::f32, {4, 8}}, {DType::f32, {8}}},
                 [&](const Inputs& x) { return fused(x.values, body, outputs); });
    };
  };
  expect_error(with({"foo %0"}, {2}), {"foo %0", "no op 'foo'"});
  expect_error(with({"exp %3"}, {2}), {"%3", "not defined"});
  expect_error(with({"exp %0 %1"}, {2}), {"takes 1 inputs"});
  expect_error(with({"exp %0 {"}, {2}), {"exp %0 {"});
  expect_error(with({"exp %0 junk"}, {2}), {"unexpected text"});
  expect_error(with({"matmul %0 %0"}, {2}), {"cannot stand in a fused region"});
  expect_error(with({"sum %0 {axes=(0), keep_dims=true}"}, {2}), {"cannot stand in a fused region"});
  expect_error(with({"exp %0"}, {}), {"no results"});
  expect_error(with({"exp %0"}, {1}), {"%1", "not made by"});
  expect_error(with({"add %0 %1", "exp %1"}, {3}), {"[8]", "[4,8]"});
  expect_error(with({"clamp %0 {min=x, max=1}"}, {2}), {"'x' is no attribute value"});
}

}  // namespace
}  // namespace genesis::testing
