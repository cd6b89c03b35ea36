// Tests layer_norm, rms_norm and batch_norm against plain loops, with and without weight and bias.
#include "schema/ops/nn/norm.h"

#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/tensor/layout.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// Normalizes rows of n elements; weight and bias may be null.
Ref norm_reference(const Ref& x, int64_t n, bool center, double eps, const Ref* weight, const Ref* bias) {
  Ref y = ref_zeros(x.shape);
  for (int64_t row = 0; n > 0 && row < x.numel() / n; ++row) {
    const int64_t at = row * n;
    double mean = 0, var = 0;
    for (int64_t i = 0; center && i < n; ++i) mean += x[at + i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += (x[at + i] - mean) * (x[at + i] - mean) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      y[at + i] =
          (x[at + i] - mean) / std::sqrt(var + eps) * (weight ? (*weight)[i] : 1) + (bias ? (*bias)[i] : 0);
  }
  return y;
}

// Returns the absolute terms of a norm's results: the two of the difference, scaled, and the bias.
Ref norm_terms(Ref x, int64_t n, bool center, double eps, const Ref* weight, const Ref* bias) {
  for (int64_t row = 0; n > 0 && row < x.numel() / n; ++row) {
    double mean = 0, var = 0;
    for (int64_t i = 0; center && i < n; ++i) mean += x[row * n + i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += std::pow(x[row * n + i] - mean, 2) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      x[row * n + i] = (std::abs(x[row * n + i]) + std::abs(mean)) / std::sqrt(var + eps) *
                           (weight ? std::abs((*weight)[i]) : 1) +
                       (bias ? std::abs((*bias)[i]) : 0);
  }
  return x;
}

void check_layer_norm(const std::string& name, std::vector<int64_t> shape, int64_t axes, bool weight,
                      bool bias) {
  const std::vector<int64_t> affine(shape.end() - axes, shape.end());
  OpCase op_case{.name = name, .inputs = {real(shape, -2, 3)}};
  if (weight) op_case.inputs.push_back(real(affine, 0.5, 1.5));
  if (bias) op_case.inputs.push_back(real(affine));
  op_case.build = [=](const Inputs& x) {
    return Outputs{layer_norm(x[0], weight ? x[1] : Value{}, bias ? x[weight ? 2 : 1] : Value{}, 1e-3)};
  };
  op_case.reference = [=](const Refs& x) {
    int64_t n = 1;
    for (int64_t size : affine) n *= size;
    return Refs{
        norm_reference(x[0], n, true, 1e-3, weight ? &x[1] : nullptr, bias ? &x[weight ? 2 : 1] : nullptr)};
  };
  op_case.terms = [=](const Refs& x) {
    const int64_t n = Shape::of(affine).numel().value();
    return Refs{
        norm_terms(x[0], n, true, 1e-3, weight ? &x[1] : nullptr, bias ? &x[weight ? 2 : 1] : nullptr)};
  };
  check(op_case);
}

void check_rms_norm(const std::string& name, std::vector<int64_t> shape, int64_t axes, bool weight) {
  const std::vector<int64_t> affine(shape.end() - axes, shape.end());
  OpCase op_case{.name = name, .inputs = {real(shape, -2, 3)}};
  if (weight) op_case.inputs.push_back(real(affine, 0.5, 1.5));
  op_case.build = [=](const Inputs& x) { return Outputs{rms_norm(x[0], weight ? x[1] : Value{}, 1e-3)}; };
  op_case.reference = [=](const Refs& x) {
    int64_t n = 1;
    for (int64_t size : affine) n *= size;
    return Refs{norm_reference(x[0], n, false, 1e-3, weight ? &x[1] : nullptr, nullptr)};
  };
  op_case.terms = [=](const Refs& x) {
    const int64_t n = Shape::of(affine).numel().value();
    return Refs{norm_terms(x[0], n, false, 1e-3, weight ? &x[1] : nullptr, nullptr)};
  };
  check(op_case);
}

TEST(LayerNorm, WithAndWithoutWeightAndBias) {
  check_layer_norm("layer_norm_plain", {3, 5}, 1, false, false);
  check_layer_norm("layer_norm_weight", {3, 5}, 1, true, false);
  check_layer_norm("layer_norm_bias", {3, 5}, 1, false, true);
  check_layer_norm("layer_norm_both", {2, 3, 5}, 1, true, true);
}

TEST(LayerNorm, Shapes) {
  check_layer_norm("layer_norm_two_axes", {3, 4, 5}, 2, true, true);
  check_layer_norm("layer_norm_vector", {9}, 1, true, true);
  for (int64_t n : {16, 17, 64, 83})
    check_layer_norm("layer_norm_n" + std::to_string(n), {2, n}, 1, true, true);
  check_layer_norm("layer_norm_no_rows", {0, 4}, 1, true, true);
  check_layer_norm("layer_norm_no_columns", {3, 0}, 1, true, true);
}

TEST(RmsNorm, WithAndWithoutWeight) {
  check_rms_norm("rms_norm_plain", {3, 5}, 1, false);
  check_rms_norm("rms_norm_weight", {2, 3, 5}, 1, true);
  check_rms_norm("rms_norm_two_axes", {3, 4, 5}, 2, true);
  check_rms_norm("rms_norm_n33", {4, 33}, 1, true);
  check_rms_norm("rms_norm_no_rows", {0, 4}, 1, true);
}

// With many rows, dweight and dbias are sums over several blocks of rows. Finite differences would take too long, so
// sums of columns are compared: with weight 1 and dy the projection's weights, dbias is the column sum of dy.
TEST(LayerNorm, SumsOverManyRowsInAFixedOrder) {
  constexpr int64_t kRows = 2300, kColumns = 40;
  check({.name = "layer_norm_many_rows",
         .inputs = {constant_real({kRows, kColumns}), real({kColumns}, 1, 2), real({kColumns})},
         .build = [](const Inputs& x) { return Outputs{layer_norm(x[0], x[1], x[2])}; },
         .reference =
             [](const Refs& x) { return Refs{norm_reference(x[0], kColumns, true, 1e-5, &x[1], &x[2])}; },
         .tolerance = 2e-5});  // sums of 2300 rows in f32
}

// The variance of a row far from zero would be lost by a one-pass formula.
TEST(LayerNorm, LargeOffset) {
  const NamedTensors results =
      run_graph({{"x", Tensor::of<float>({1, 4}, {10000, 10001, 10002, 10003})}}, [](const Inputs& x) {
        return std::vector<std::pair<std::string, Value>>{{"y", layer_norm(x[0])}};
      });
  const auto y = results.at("y").to_doubles();
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(y[static_cast<size_t>(i)], (i - 1.5) / std::sqrt(1.25 + 1e-5), 1e-5);
}

// Mixed precision gives such a norm: the weight stays f32 while x has low precision.
TEST(RmsNorm, WeightOfAnotherPrecision) {
  CaseInput weight = real({6}, 0.5, 1.5);
  weight.keep_dtype = true;
  check({.name = "rms_norm_f32_weight",
         .inputs = {real({3, 6}), weight},
         .build = [](const Inputs& x) { return Outputs{rms_norm(x[0], x[1], 1e-3)}; },
         .reference =
             [](const Refs& x) { return Refs{norm_reference(x[0], 6, false, 1e-3, &x[1], nullptr)}; }});
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const TensorType x{DType::f32, {2, 3}}, four{DType::f32, {4}}, integers_type{DType::i64, {2, 3}};
  const TensorType three_axes{DType::f32, {1, 2, 3}};
  const auto fails = [](const std::vector<TensorType>& types, std::vector<std::string> parts) {
    expect_error(
        [&] {
          infer_case(types, [](const Inputs& x) {
            return Outputs{layer_norm(x[0], x.values.size() > 1 ? x[1] : Value{})};
          });
        },
        parts);
  };
  fails({x, four}, {"weight", "shape [3]", "f32[4]"});
  fails({integers_type}, {"floating-point", "i64[2,3]"});
  fails({x, three_axes}, {"last 3 axes", "[2,3]"});
}

// --- batch_norm: x [N, C, L]

struct ChannelMoments {
  double mean = 0, var = 0;
};

ChannelMoments channel_moments(const Ref& x, int64_t channel) {
  const int64_t channels = x.shape[1], inner = x.rank() > 2 ? x.shape[2] : 1;
  const auto count = static_cast<double>(x.shape[0] * inner);
  ChannelMoments m;
  const auto each = [&](auto f) {
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t l = 0; l < inner; ++l) f(x[(n * channels + channel) * inner + l]);
  };
  each([&](double v) { m.mean += v / count; });
  each([&](double v) { m.var += (v - m.mean) * (v - m.mean) / count; });
  return m;
}

// Maps x, weight, bias, running mean, running var -> y, new mean, new var.
Refs batch_norm_reference(const Refs& in, bool training, double momentum, double eps) {
  const Ref& x = in[0];
  const int64_t channels = x.shape[1], inner = x.rank() > 2 ? x.shape[2] : 1;
  const auto count = static_cast<double>(x.shape[0] * inner);
  Refs out = {ref_zeros(x.shape), in[3], in[4]};
  for (int64_t c = 0; c < channels; ++c) {
    ChannelMoments m{in[3][c], in[4][c]};
    if (training) {
      m = channel_moments(x, c);
      out[1][c] = (1 - momentum) * in[3][c] + momentum * m.mean;
      out[2][c] = (1 - momentum) * in[4][c] + momentum * m.var * count / (count - 1);
    }
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t l = 0; l < inner; ++l) {
        const int64_t i = (n * channels + c) * inner + l;
        out[0][i] = (x[i] - m.mean) / std::sqrt(m.var + eps) * in[1][c] + in[2][c];
      }
  }
  return out;
}

void check_batch_norm(const std::string& name, std::vector<int64_t> shape, bool training) {
  const int64_t c = shape[1];
  check({.name = name,
         .inputs = {real(shape, -2, 3), real({c}, 0.5, 1.5), real({c}), constant_real({c}),
                    constant_real({c}, 0.5, 2)},
         .build =
             [=](const Inputs& x) {
               const BatchNormResult r = batch_norm(x[0], x[1], x[2], x[3], x[4], training, 0.2, 1e-3);
               return Outputs{r.y, r.running_mean, r.running_var};
             },
         .reference = [=](const Refs& x) { return batch_norm_reference(x, training, 0.2, 1e-3); }});
}

TEST(BatchNorm, TrainingAndEvaluation) {
  check_batch_norm("batch_norm_train", {4, 3}, true);
  check_batch_norm("batch_norm_eval", {4, 3}, false);
  check_batch_norm("batch_norm_train_3d", {2, 3, 5}, true);
  check_batch_norm("batch_norm_eval_3d", {2, 3, 5}, false);
}

// The op with its epilogue, in both layouts. The last shape has several chunks of rows and packs of channels on a GPU.
void check_batch_norm_op(std::vector<int64_t> shape, bool relu, bool has_addend, bool channels_last) {
  const int64_t c = shape[1];
  std::vector<CaseInput> inputs = {real(shape, -2, 3), real({c}, 0.5, 1.5), real({c})};
  if (has_addend) inputs.push_back(real(shape));
  check({.name = "batch_norm_op",
         .inputs = inputs,
         .build =
             [=](const Inputs& x) {
               const auto last = [&](Value v) { return channels_last ? permute(v, {0, 2, 1}) : v; };
               const auto first = [&](Value v) { return channels_last ? permute(v, {0, 2, 1}) : v; };
               std::vector<Value> operands = {last(x[0]), x[1], x[2]};
               if (has_addend) operands.push_back(last(x[3]));
               const auto y = emit_node(ops::BatchNorm{1e-3, relu, has_addend, channels_last}, operands);
               return Outputs{first(y[0]), y[1], y[2]};
             },
         .reference =
             [=](const Refs& in) {
               const Ref zeros = ref_zeros({c});
               Refs out = {batch_norm_reference({in[0], in[1], in[2], zeros, zeros}, true, 1, 1e-3)[0], zeros,
                           zeros};
               for (int64_t i = 0; i < out[0].numel(); ++i) {
                 const double v = out[0][i] + (has_addend ? in[3][i] : 0);
                 out[0][i] = relu ? std::max(v, 0.0) : v;
               }
               for (int64_t k = 0; k < c; ++k) {
                 const ChannelMoments m = channel_moments(in[0], k);
                 out[1][k] = m.mean, out[2][k] = m.var;
               }
               return out;
             },
         .directions = shape[1] > 3 ? 6 : 0});
}

TEST(BatchNorm, HasAnAddendAndAnActivationInBothLayouts) {
  for (const bool channels_last : {false, true})
    for (const auto& [relu, has_addend] : {std::pair{false, true}, {true, false}, {true, true}})
      check_batch_norm_op({2, 3, 5}, relu, has_addend, channels_last);
  check_batch_norm_op({3, 24, 50}, true, true, true);
}

// Numbers that bf16 has, so that a fused cast and sum round once, too.
Tensor coarse_wave(const std::vector<int64_t>& sizes, float by) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(std::round(64 * std::sin(by * static_cast<float>(i))) / 64);
  return Tensor::of<float>(sizes, values);
}

// Returns the gradients of a batch norm whose dy is a sum ("one") and comes in two parts ("two"), and of one whose output stays ("kept")
// or comes again ("again", with the output as the last result), and that output ("y").
NamedTensors gradients_of_batch_norms(const std::vector<int64_t>& shape, bool last, DType dtype,
                                      const std::string& device) {
  const std::vector<int64_t> c = {last ? shape[2] : shape[1]};
  const auto build = [&](const Inputs& in) {
    const Value x = cast(in[0], dtype), dy = cast(in[1], dtype), more = cast(in[2], dtype);
    std::vector<std::pair<std::string, Value>> out;
    const auto add = [&](const std::string& name, const std::vector<Value>& all) {
      for (size_t i = 0; i < all.size(); ++i)
        out.emplace_back(name + std::to_string(i), cast(all[i], DType::f32));
    };
    const auto y = emit_node(ops::BatchNorm{1e-3, true, false, last}, {x, in[3], in[4]});
    const auto z = emit_node(ops::BatchNorm{1e-3, true, true, last}, {x, in[3], in[4], dy});
    const ops::BatchNormGrad one{1e-3, true, true, last, false, false},
        two{1e-3, true, true, last, true, false}, kept{1e-3, true, false, last, false, false},
        again{1e-3, true, false, last, false, true};
    add("one", emit_node(one, {x, dy + more, z[1], z[2], in[3], z[0]}));
    add("two", emit_node(two, {x, dy, z[1], z[2], in[3], z[0], more}));
    add("kept", emit_node(kept, {x, dy, y[1], y[2], in[3], in[4]}));
    add("again", emit_node(again, {x, dy, y[1], y[2], in[3], in[4]}));
    add("y", {y[0]});
    return out;
  };
  return run_graph({{"x", coarse_wave(shape, 0.7f)},
                    {"dy", coarse_wave(shape, 1.3f)},
                    {"more", coarse_wave(shape, 0.4f)},
                    {"w", coarse_wave(c, 0.9f)},
                    {"b", coarse_wave(c, 0.3f)}},
                   build, {.device = device});
}

void expect_same(const NamedTensors& out, const std::string& a, const std::string& b) {
  EXPECT_EQ(out.at(a).to_doubles(), out.at(b).to_doubles()) << a << " " << b;
}

// dy in two parts gives the bits of a dy that is their sum, and the output that comes again has those of the norm. The last two shapes
// have kernels of their own on a GPU if the channels are last, the last one with several chunks of rows.
TEST(BatchNorm, GradientsAddAndGiveTheOutputAgain) {
  for (const std::string device : {"cpu", "cuda"})
    for (const bool last : {false, true})
      for (const auto& [rows, channels] : {std::pair<int64_t, int64_t>{5, 3}, {4, 16}, {600, 24}})
        for (const DType dtype : {DType::f32, DType::bf16}) {
          if (device == "cuda" && !why_no_cuda().empty()) continue;
          SCOPED_TRACE(device + (last ? " last " : " first ") + std::to_string(rows));
          const std::vector<int64_t> shape = {2, last ? rows : channels, last ? channels : rows};
          const NamedTensors out = gradients_of_batch_norms(shape, last, dtype, device);
          for (const char* i : {"0", "1", "2", "3"})
            expect_same(out, std::string("two") + i, std::string("one") + i);
          for (const char* i : {"0", "1", "2"})
            expect_same(out, std::string("again") + i, std::string("kept") + i);
          expect_same(out, "again3", "y0");
        }
}

TEST(BatchNorm, GradientsRefuseWhatTheyDoNotHave) {
  const TensorType x{DType::f32, {2, 3, 4}}, c{DType::f32, {3}};
  const auto of = [](const ops::BatchNormGrad& op) {
    return [op](const Inputs& in) { return Outputs{emit_node(op, in.values)[0]}; };
  };
  expect_error(
      [&] {
        infer_case({x, x, c, c, c, c, x}, of({1e-3, true, false, false, true, false}));
      },
      {"two_gradients"});
  expect_error(
      [&] {
        infer_case({x, x, c, c, c, x}, of({1e-3, true, true, false, false, true}));
      },
      {"with_output"});
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  const TensorType x{DType::f32, {2, 3}}, four{DType::f32, {4}}, one{DType::f32, {1, 3}},
      three{DType::f32, {3}};
  const auto build = [](const Inputs& x) { return Outputs{batch_norm(x[0], {}, {}, x[1], x[1], true).y}; };
  expect_error([&] { infer_case({x, four}, build); }, {"running_mean", "[3]", "[4]"});
  expect_error([&] { infer_case({one, three}, build); }, {"more than one value per channel"});
}

// The result is dx + residual, for rows in one block and in many, with and without the other gradients.
TEST(NormGradients, AddTheResidual) {
  for (const char* name : {"rms_norm_grad", "layer_norm_grad"})
    for (const bool has_weight : {false, true})
      for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{1, 7}, {3, 0}, {301, 200}}) {
        const auto tensor = [n = n](int64_t count, float by) {
          std::vector<float> values;
          for (int64_t i = 0; i < count * n; ++i) values.push_back(std::sin(by * static_cast<float>(i)));
          return Tensor::of<float>(count == 1 ? std::vector<int64_t>{n} : std::vector<int64_t>{count, n},
                                   values);
        };
        const NamedTensors out =
            run_graph({{"x", tensor(rows + 1, 0.7f)},
                       {"dy", tensor(rows + 1, 1.3f)},
                       {"w", tensor(1, 0.1f)},
                       {"past", tensor(rows + 1, 0.4f)}},
                      [&, name = name](const Inputs& x) {
                        Attributes attributes;
                        attributes.set("has_weight", has_weight);
                        attributes.set("want_weight", has_weight);
                        std::vector<Value> inputs = {x[0], x[1]};
                        if (has_weight) inputs.push_back(x[2]);
                        const auto apart = emit_node(*find_op(name), attributes, inputs);
                        attributes.set("has_residual", true);
                        inputs.push_back(x[3]);
                        const auto together = emit_node(*find_op(name), attributes, inputs);
                        std::vector<std::pair<std::string, Value>> named = {{"apart", apart[0] + x[3]},
                                                                            {"together", together[0]}};
                        if (has_weight)
                          named.insert(named.end(), {{"dw", apart[1]}, {"dw_together", together[1]}});
                        return named;
                      });
        EXPECT_EQ(out.at("together").to_doubles(), out.at("apart").to_doubles()) << name << n;
        if (has_weight) {
          EXPECT_EQ(out.at("dw_together").to_doubles(), out.at("dw").to_doubles()) << name << n;
        }
      }
}

// The recomputed output has the bits of the norm itself, and the gradient does not change.
TEST(NormGradients, GiveTheOutputAgain) {
  for (const bool center : {false, true})
    for (const bool affine : {false, true}) {
      std::vector<float> values(301 * 40);
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.7f * static_cast<float>(i));
      const Tensor x = Tensor::of<float>({301, 40}, values),
                   w = Tensor::of<float>({40}, {values.begin(), values.begin() + 40}),
                   b = Tensor::of<float>({40}, {values.begin() + 40, values.begin() + 80});
      const NamedTensors out = run_graph({{"x", x}, {"w", w}, {"b", b}}, [&](const Inputs& in) {
        const Value weight = affine ? in[1] : Value{}, bias = affine ? in[2] : Value{};
        Attributes attributes;
        attributes.set("has_weight", affine);
        std::vector<Value> inputs = {in[0], in[0] * 0.5};
        if (affine) inputs.push_back(in[1]);
        const OpDef& op = *find_op(center ? "layer_norm_grad" : "rms_norm_grad");
        const Value apart = emit_node(op, attributes, inputs)[0];
        attributes.set("with_output", true);
        if (center && affine) {
          attributes.set("has_bias", true);
          inputs.push_back(in[2]);
        }
        const std::vector<Value> together = emit_node(op, attributes, inputs);
        return std::vector<std::pair<std::string, Value>>{
            {"expected", center ? layer_norm(in[0], weight, bias, 1e-5) : rms_norm(in[0], weight, 1e-6)},
            {"output", together[1]},
            {"dx", apart},
            {"dx_together", together[0]}};
      });
      EXPECT_EQ(out.at("output").to_doubles(), out.at("expected").to_doubles()) << center << affine;
      EXPECT_EQ(out.at("dx_together").to_doubles(), out.at("dx").to_doubles()) << center << affine;
    }
}

}  // namespace
}  // namespace genesis::testing
