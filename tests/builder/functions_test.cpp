// Tests functions and operators as users of torch write them: names, arguments and operators that mean what they mean there.
#include "builder/interpolation.h"
#include "builder/vision/regions.h"
#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

// Returns the elements of a function of inputs with these values.
Doubles result(const std::vector<Tensor>& inputs, const std::function<Value(const std::vector<Value>&)>& f) {
  Model model;
  return run_layer(model, inputs, f).y();
}
Doubles result(const Tensor& input, const std::function<Value(Value)>& f) {
  return result(std::vector{input}, [&](const std::vector<Value>& x) { return f(x[0]); });
}

const Tensor kMatrix = Tensor::of<float>({{1, -2, 3}, {-4, 5, 6}});

TEST(Operators, CompareElements) {
  EXPECT_EQ(result(kMatrix, [](Value x) { return x == 3; }), (Doubles{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return x != x * x; }), (Doubles{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return ((x > 0) & ~(x >= 3.5)) | (x == -4); }),
            (Doubles{1, 0, 1, 1, 0, 0}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return 3 <= x; }), result(kMatrix, [](Value x) { return x >= 3; }));
  EXPECT_EQ(result(kMatrix, [](Value x) { return 3 < x; }), result(kMatrix, [](Value x) { return x > 3; }));
  EXPECT_EQ(result(kMatrix, [](Value x) { return 3 >= x; }), result(kMatrix, [](Value x) { return x <= 3; }));
  EXPECT_EQ(result(kMatrix, [](Value x) { return 3 > x; }), result(kMatrix, [](Value x) { return x < 3; }));
  EXPECT_EQ(
      result(kMatrix, [](Value x) { return sum(1 != x) + sum(1 == x) + mean(cast(x == x, DType::f32)); }),
      Doubles{7});
  expect_error([] { result(kMatrix, [](Value x) { return x & x; }); }, {"'&' combines bools", "f32[2,3]"});
  expect_error([] { result(kMatrix, [](Value x) { return ~x; }); }, {"'~' combines bools"});
}

// Code that took handles for elements, or elements for handles, does not compile.
TEST(Operators, AMaskIsNoCondition) {
  static_assert(std::is_convertible_v<Mask, Value>);
  static_assert(!std::is_constructible_v<bool, Mask>);
  static_assert(!std::equality_comparable<Value>);
  static_assert(!std::totally_ordered<Value>);
  static_assert(!std::indirect_binary_predicate<std::ranges::equal_to, const Value*, const Value*>,
                "std::ranges::find of a Value");
  Model model;
  GraphBuilder g(model, "forward");
  const Value x = g.input("x", DType::f32, {2, 3}), y = x;
  EXPECT_TRUE(x.is(y));
  EXPECT_FALSE(x.is(x + 1));
  EXPECT_FALSE(x.is(Value()));
  EXPECT_TRUE(x) << "a handle that is not empty";
  EXPECT_EQ((x == y).dtype(), DType::boolean);
  EXPECT_EQ(x.size(-1), Dim(3));
  EXPECT_EQ(nn::Sequential({nn::ReLU()})(x).shape(), (x < y).shape());
}

TEST(Operators, CompoundOnesRenameTheHandle) {
  EXPECT_EQ(result(kMatrix,
                   [](Value x) {
                     const Value before = x;
                     x += 1;
                     x *= before;
                     x -= before;
                     x /= 2.0;
                     return x;
                   }),
            (Doubles{0.5, 2, 4.5, 8, 12.5, 18}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return x * size_t{2} - 1.0f; }), (Doubles{1, -5, 5, -9, 9, 11}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return x % 3; }), (Doubles{1, 1, 0, 2, 2, 0}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return -x % maximum(x, 3); }), (Doubles{2, 2, 0, 1, 0, 0}));
  EXPECT_EQ(result(Tensor::of<float>({1, 2, 3}), [](Value x) { return pow(2, x); }), (Doubles{2, 4, 8}));
}

TEST(Reductions, TakeAnAxisOrSeveral) {
  const auto same = [](const std::function<Value(Value)>& a, const std::function<Value(Value)>& b) {
    EXPECT_EQ(result(kMatrix, a), result(kMatrix, b));
  };
  EXPECT_EQ(result(kMatrix, [](Value x) { return sum(x, -1); }), (Doubles{2, 7}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return mean(x, 0, true); }), (Doubles{-1.5, 1.5, 4.5}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return sum(x, {}); }), Doubles{9}) << "all axes, not axis 0";
  same([](Value x) { return max(x, {0, 1}, true); }, [](Value x) { return amax(x); });
  same([](Value x) { return min(x, {1}); }, [](Value x) { return amin(x, 1); });
  same([](Value x) { return var(x, 1); }, [](Value x) { return var(x, Axes{1}); });
  same([](Value x) { return any(x > 5, 1); }, [](Value x) { return ~all(x <= 5, 1); });
  EXPECT_EQ(result(kMatrix, [](Value x) { return count_nonzero(x - 3, 1); }), (Doubles{2, 3}));
  EXPECT_EQ(result(Tensor::of<float>({{3, 4}, {0, 0}}), [](Value x) { return norm(x, 1); }), (Doubles{5, 0}));
  static_assert(!std::is_convertible_v<bool, AxisList>, "sum(x, true) forgets the axis");
}

TEST(Shapes, HaveTheNamesOfTorch) {
  EXPECT_EQ(result(kMatrix,
                   [](Value x) {
                     return cat({x, x}, 1);
                   }),
            (Doubles{1, -2, 3, 1, -2, 3, -4, 5, 6, -4, 5, 6}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return stack({x, x}); }).size(), 12u);
  EXPECT_EQ(result(kMatrix, [](Value x) { return split(x, 2, 1)[1]; }), (Doubles{3, 6}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return split(x, {1, 2}, 1)[0]; }), (Doubles{1, -4}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return unbind(x, -1)[1]; }), (Doubles{-2, 5}));
  EXPECT_EQ(result(kMatrix, [](Value x) { return movedim(x, 1, 0); }),
            result(kMatrix, [](Value x) { return transpose(x); }));
  Model model;
  GraphBuilder g(model, "forward");
  const Value x = g.input("x", DType::f32, {symbol("batch"), 12, 5});
  EXPECT_EQ(unflatten(x, 1, {3, -1}).shape(), Shape({symbol("batch"), 3, 4, 5}));
  EXPECT_EQ(view(x, {-1, 5}).shape(), Shape({symbol("batch") * Dim(12), 5}));
  EXPECT_EQ(broadcast_to(g.zeros({5}), {2, 5}).shape(), Shape({2, 5}));
  EXPECT_EQ(movedim(x, 0, -1).shape(), Shape({12, 5, symbol("batch")}));
  expect_error([&] { split(x, 0, 1); }, {"pieces of 0"});
}

TEST(Functions, OfOneElement) {
  const Tensor x = Tensor::of<float>({-7, -1, 0, 2, 7});
  EXPECT_EQ(result(x, [](Value v) { return masked_fill(v, v < 0, 9); }), (Doubles{9, 9, 0, 2, 7}));
  EXPECT_EQ(result(x, [](Value v) { return where(v < 0, v, 1); }), (Doubles{-7, -1, 1, 1, 1}));
  EXPECT_EQ(result(x, [](Value v) { return logical_xor(v > 0, v > 5); }), (Doubles{0, 0, 0, 1, 0}));
  EXPECT_EQ(result(x, relu6), (Doubles{0, 0, 0, 2, 6}));
  EXPECT_EQ(result(x, [](Value v) { return hardtanh(v); }), (Doubles{-1, -1, 0, 1, 1}));
  expect_near(result(x, hardsigmoid), {0, 1.0 / 3, 0.5, 5.0 / 6, 1});
  expect_near(result(x, logsigmoid), result(x, [](Value v) { return log(sigmoid(v)); }), 1e-5);
  expect_near(result(x, selu), {-1.7564961, -1.1113307, 0, 2.1014020, 7.3549070});
  expect_near(result(Tensor::of<float>({{1, 2, 0, 1}}), [](Value v) { return glu(v); }),
              {0.5, 2 / (1 + std::exp(-1.0))});
}

TEST(Functions, OfVectors) {
  const Tensor a = Tensor::of<float>({{3, 4}, {0, 0}}), b = Tensor::of<float>({{4, 3}, {1, 0}});
  expect_near(result(a, [](Value x) { return normalize(x); }), {0.6, 0.8, 0, 0});
  expect_near(result({a, b}, [](const auto& x) { return cosine_similarity(x[0], x[1]); }), {0.96, 0});
  const Tensor q = wave_tensor({1, 2, 3, 4}, 0.1), k = wave_tensor({1, 2, 3, 4}, 0.5),
               v = wave_tensor({1, 2, 3, 4}, 0.9);
  expect_near(result({q, k, v}, [](const auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }),
              result({q, k, v}, [](const auto& x) {
                return matmul(softmax(matmul(x[0], x[1], false, true) * 0.5), x[2]);
              }));
  expect_near(result({q, k, v},
                     [](const auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, true); }),
              result({q, k, v}, [](const auto& x) {
                return matmul(causal_softmax(matmul(x[0], x[1], false, true), 0.5), x[2]);
              }));
}

// In f16, numbers of pixels beyond 2048 are not exact.
TEST(Functions, TapsAtOffsetsReadEachPixelInF16) {
  const Tensor x = Tensor::of<float>({1, 1, 64, 64}, [] {
    std::vector<float> bits;
    for (int i = 0; i < 64 * 64; ++i) bits.push_back(static_cast<float>(i * 7 % 5 % 2));
    return bits;
  }());
  const auto model = std::make_shared<Model>();
  GraphBuilder g(*model, "forward");
  const auto input = [&](const char* name, int64_t channels) {
    return cast(g.input(name, DType::f32, {1, channels, 64, 64}), DType::f16);
  };
  const Value weight = g.full({1, 1, 1, 1}, 1.0, DType::f16);
  g.output("y", cast(deform_conv2d(input("x", 1), input("o", 2), weight), DType::f32));
  const Tensor offsets = Tensor::of<float>({1, 2, 64, 64}, std::vector<float>(2 * 64 * 64));
  Session session(model, {.optimize = false});
  EXPECT_EQ(session.run("forward", {{"x", x}, {"o", offsets}}).at("y").to_doubles(), x.to_doubles());
}

// A convolution with a window of 3 and a stride of 2 has (8 + padding - 3) / 2 + 1 places along 8 pixels.
TEST(Functions, OffsetsAreForThePlacesOfTheConvolution) {
  const auto convolved = [](int64_t rows, int64_t columns, const DeformConvOptions& options) {
    Model model;
    GraphBuilder g(model, "forward");
    return deform_conv2d(g.input("x", DType::f32, {2, 1, 8, 8}),
                         g.input("o", DType::f32, {2, 18, rows, columns}),
                         g.input("w", DType::f32, {1, 1, 3, 3}), {}, {}, options)
        .shape();
  };
  EXPECT_EQ(convolved(4, 3, {.stride = {2, 2}, .padding = {1, 0}}), (Shape{2, 1, 4, 3}));
  EXPECT_EQ(convolved(4, 4, {.stride = {2, 2}, .end_padding = std::array<int64_t, 2>{1, 2}}),
            (Shape{2, 1, 4, 4}));
  expect_error([&] { convolved(50, 3, {.stride = {2, 2}}); }, {"[2,18,50,3]", "expected 3 rows"});
  expect_error([&] { convolved(3, 4, {.stride = {2, 2}}); }, {"[2,18,3,4]", "expected 3 columns"});
}

// --- sizes that are known when a model is run

Doubles resized(const ResizeRules& rules, const ResizedAxis& axis, const NamedTensors& x) {
  auto model = std::make_shared<Model>();
  GraphBuilder g(*model, "forward");
  const Value in = g.input("x", DType::f32, {2, axis.input, 3});
  g.output("y", resize_axis(in, 1, rules, axis));
  return Session(model).run("forward", x).at("y").to_doubles();
}

void expect_same_for_symbols(const ResizeRules& rules, double scale, int64_t size) {
  const Dim h = Dim::symbol("h");
  const NamedTensors x = {{"x", wave_tensor({2, 8, 3}, 0.3)}};
  const ResizedAxis known{size, 8, scale},
      open{scale > 0 ? scaled_size(h, scale) : Dim::floor_div(h * Dim(size), 8), h, scale};
  const Doubles wanted = resized(rules, known, x), got = resized(rules, open, x);
  const std::string what = fmt::format("{} {} {} {}", rules.mode, rules.coordinates, rules.nearest, size);
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << what << ", element " << i;
}

TEST(Interpolation, SizesMayBeSymbols) {
  std::vector<ResizeRules> all;
  for (const char* coordinates :
       {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners"}) {
    for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
      all.push_back({.coordinates = coordinates, .nearest = nearest});
    for (const char* mode : {"linear", "cubic"}) all.push_back({.mode = mode, .coordinates = coordinates});
  }
  for (const ResizeRules& rules : all) {
    for (const double scale : {2.0, 3.0, 0.5, 1.625, 0.125})
      expect_same_for_symbols(rules, scale, scaled_size(8, scale).value());
    for (const int64_t size : {1, 5, 11, 16}) expect_same_for_symbols(rules, 0, size);
  }
  const Dim h = Dim::symbol("h");
  expect_error([&] { scaled_size(h, 1.1); }, {"h", "1.1", "1/64"});
  EXPECT_EQ(scaled_size(h * Dim(32), 1.5), h * Dim(48));
  expect_error(
      [&] {
        resized({.mode = "linear", .antialias = true}, {h, h * Dim(2)}, {});
      },
      {"2*h", "antialias"});
}

}  // namespace
}  // namespace genesis
