// Tests tensors made without inputs: values, dtypes, and sizes that are symbols until a session runs.
#include "schema/ops/create.h"

#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

Tensor evaluate(const std::function<Value(Graph&)>& op) {
  return run_graph({},
                   [&](const Inputs& in) {
                     return std::vector<std::pair<std::string, Value>>{{"y", op(in.graph)}};
                   })
      .at("y");
}

TEST(Create, FullOfEveryDType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor y = evaluate([&](Graph& g) { return full(g, {2, 3}, 3, dtype); });
    EXPECT_EQ(y.type(), (TensorType{dtype, {2, 3}}));
    for (double value : y.to_doubles()) EXPECT_EQ(value, dtype == DType::boolean ? 1 : 3) << name_of(dtype);
  }
  EXPECT_EQ(
      evaluate([](Graph& g) { return full(g, {}, int64_t{9007199254740993}, DType::i64); }).as<int64_t>()[0],
      9007199254740993);
  EXPECT_EQ(evaluate([](Graph& g) { return full(g, {}, 2.75, DType::i32); }).as<int32_t>()[0], 2);
  EXPECT_TRUE(std::isnan(evaluate([](Graph& g) { return full(g, {1}, std::nan("")); }).as<float>()[0]));
  EXPECT_EQ(evaluate([](Graph& g) { return zeros(g, {0, 4}); }).numel(), 0);
  for (double value : evaluate([](Graph& g) { return ones(g, {100000}); }).to_doubles()) ASSERT_EQ(value, 1);
}

TEST(Create, LikeAnother) {
  check({.name = "full_like",
         .inputs = {real({2, 2})},
         .build =
             [](const Inputs& in) {
               return Outputs{in[0] * full_like(in[0], 3.0) + ones_like(in[0]) + zeros_like(in[0])};
             },
         .reference =
             [](const Refs& in) {
               Ref y = in[0];
               for (double& v : y.data) v = 3 * v + 1;
               return Refs{y};
             }});
}

TEST(Create, Arange) {
  const auto numbers = [](Scalar start, Scalar step, DType dtype) {
    return evaluate([&](Graph& g) { return arange(g, 4, start, step, dtype); }).to_doubles();
  };
  EXPECT_EQ(numbers(0, 1, DType::i64), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(numbers(5, -2, DType::i32), (std::vector<double>{5, 3, 1, -1}));
  EXPECT_EQ(numbers(0.5, 0.25, DType::f32), (std::vector<double>{0.5, 0.75, 1, 1.25}));
  EXPECT_EQ(numbers(250, 2, DType::u8), (std::vector<double>{250, 252, 254, 0}));  // wraps around
  EXPECT_EQ(evaluate([](Graph& g) { return arange(g, 0); }).numel(), 0);
}

TEST(Create, OneHot) {
  check({.name = "one_hot",
         .inputs = {integers({3, 2}, 0, 5), integers({4}, 0, 3, DType::i32)},
         .build =
             [](const Inputs& in) {
               return Outputs{one_hot(in[0], 5), one_hot(in[1], 3, DType::boolean)};
             },
         .reference =
             [](const Refs& in) {
               Refs out;
               for (const auto& [x, classes] : {std::pair{in[0], int64_t{5}}, std::pair{in[1], int64_t{3}}}) {
                 std::vector<int64_t> shape = x.shape;
                 shape.push_back(classes);
                 out.push_back(ref_zeros(shape));
                 for (int64_t i = 0; i < x.numel(); ++i)
                   out.back()[i * classes + static_cast<int64_t>(x[i])] = 1;
               }
               return out;
             }});
  for (int64_t bad : {int64_t{-1}, int64_t{5}})
    expect_error(
        [&] {
          run_graph({{"x", Tensor::of<int64_t>({2}, {0, bad})}}, [](const Inputs& in) {
            return std::vector<std::pair<std::string, Value>>{{"y", one_hot(in[0], 5)}};
          });
        },
        {"one_hot", std::to_string(bad), "5"});
}

TEST(Create, DimValue) {
  check({.name = "dim_value",
         .inputs = {real({3, 2})},
         .build =
             [](const Inputs& in) {
               // dim_value() of a known size would make a `full`.
               const ops::DimValue op{{in[0].dim(0)}, DType::i32};
               const Value size = in.graph.add_node(kOpDef<ops::DimValue>, to_attributes(op), {})[0];
               return Outputs{in[0] * cast(size, in[0].dtype())};
             },
         .reference =
             [](const Refs& in) {
               Ref y = in[0];
               for (double& v : y.data) v *= 3;
               return Refs{y};
             }});
}

TEST(Create, SizesBoundInTheRun) {
  auto model = std::make_shared<Model>();
  Graph& g = model->add_entry("main");
  const Dim n = Dim::symbol("n");
  const Value x = g.add_input("x", {DType::f32, {n, 2}});
  g.add_output("ones", x + ones_like(x));
  g.add_output("places", arange(g, n * Dim(2)));
  g.add_output("size", dim_value(g, n * n, DType::f32));
  g.add_output("mean", mean(x, {0}));
  Session session(model);
  const NamedTensors results = session.run("main", {{"x", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}});
  EXPECT_EQ(results.at("ones").to_doubles(), (std::vector<double>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(results.at("places").to_doubles(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(results.at("size").to_doubles(), (std::vector<double>{9}));
  EXPECT_EQ(results.at("mean").to_doubles(), (std::vector<double>{3, 4}));
}

TEST(Create, Errors) {
  expect_error(
      [] {
        infer_case({{DType::f32, {2}}}, [](const Inputs& in) { return Outputs{one_hot(in[0], 3)}; });
      },
      {"one_hot takes integer indices", "f32[2]"});
  expect_error([] { evaluate([](Graph& g) { return full(g, {-2}, 1); }); }, {"negative size"});
  for (const double value : {double{NAN}, -double{INFINITY}, 1e19})
    expect_error([&] { evaluate([&](Graph& g) { return full(g, {2}, value, DType::i32); }); },
                 {"is no value of i32", "f32"});
}

}  // namespace
}  // namespace genesis::testing
