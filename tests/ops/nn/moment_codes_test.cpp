// Tests moments of 8 bits: the codes against a list of their magnitudes, and updates with them against a loop in double
// precision, by one node and by many, for parameters as halves, on every device.
#include "schema/core/moment_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "schema/core/halves.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/slice.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// Returns the magnitudes by code: 1, then 16 an octave, then 4 an octave until there are `count`.
std::vector<double> magnitudes(int fine_octaves, size_t count) {
  std::vector<double> all = {1};
  for (int octave = 1; all.size() < count; ++octave) {
    const int each = octave <= fine_octaves ? 16 : 4;
    for (int j = each - 1; j >= 0 && all.size() < count; --j)
      all.push_back(std::ldexp(1.0 + j / double(each), -octave));
  }
  std::ranges::reverse(all);
  return all;
}

std::vector<double> magnitudes_of_m() {
  std::vector<double> all = magnitudes(4, 128);
  all[0] = 0;
  return all;
}
std::vector<double> magnitudes_of_v() { return magnitudes(12, 256); }

double distance_to_nearest(const std::vector<double>& numbers, double x) {
  double least = INFINITY;
  for (const double number : numbers) least = std::min(least, std::abs(number - x));
  return least;
}

TEST(MomentCodes, AreTheListedMagnitudes) {
  const std::vector<double> m = magnitudes_of_m(), v = magnitudes_of_v();
  for (int code = 0; code < 128; ++code) {
    EXPECT_EQ(decode_m(static_cast<uint8_t>(code), 1), m[size_t(code)]);
    EXPECT_EQ(decode_m(static_cast<uint8_t>(code + 128), 2), -2 * m[size_t(code)]);
    EXPECT_EQ(encode_m(decode_m(static_cast<uint8_t>(code), 1), 1), code);
    if (code > 0) {
      EXPECT_EQ(encode_m(decode_m(static_cast<uint8_t>(code + 128), 1), 1), code + 128);
    }
  }
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(decode_v(static_cast<uint8_t>(code), 3), 3 * static_cast<float>(v[size_t(code)]));
    EXPECT_EQ(encode_v(decode_v(static_cast<uint8_t>(code), 1), 1), code);
  }
  EXPECT_EQ(decode_v(encode_v(0, 1), 1), static_cast<float>(v[0])) << "never zero";
  EXPECT_EQ(decode_v(encode_v(0, 0), 0), 0) << "except in a block of zeros";
}

TEST(MomentCodes, AreTheNearest) {
  const std::vector<double> m = magnitudes_of_m(), v = magnitudes_of_v();
  for (float x = 1; x > 1e-10f; x *= 0.99923f) {
    EXPECT_LE(std::abs(double{decode_v(encode_v(x, 1), 1)} - x), distance_to_nearest(v, x)) << x;
    if (x < m[1]) continue;  // next to zero the border lies where it would without zero
    EXPECT_LE(std::abs(double{decode_m(encode_m(-x, 1), 1)} + x), distance_to_nearest(m, x)) << x;
  }
}

TEST(MomentCodes, OfScalesThatDivideNothing) {
  for (const float scale : {0.0f, 1e-39f, INFINITY, NAN}) EXPECT_EQ(inverse_moment_scale(scale), 0) << scale;
  EXPECT_EQ(inverse_moment_scale(0.25f), 4);
}

struct Operands {
  Tensor p, g, m, v, m_scales, v_scales;
};
struct Settings {
  DType parameter = DType::f32, gradient = DType::f32;
  int64_t n = 0;
  bool decoupled = true, halves = false, misaligned = false;
  float scale = 0.5f;
  double weight_decay = 0.1;
};

double gradient_at(int64_t i, int64_t step) {
  const double wave = std::sin(static_cast<double>(i * i % 9973 + 7 * step));
  return wave * wave * wave * std::exp2(-static_cast<double>(i % 11));
}

Tensor real_tensor(DType dtype, int64_t n, const std::function<double(int64_t)>& value) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(value(i)));
  const Tensor f32 = Tensor::of<float>({n}, values);
  if (dtype == DType::f32) return f32;
  return run_graph({{"x", f32}},
                   [dtype](const Inputs& x) {
                     return std::vector<std::pair<std::string, Value>>{{"y", cast(x[0], dtype)}};
                   })
      .at("y");
}

Operands first_operands(const Settings& s) {
  const int64_t blocks = s.n / kMomentBlock;
  return {real_tensor(s.parameter, s.n, [](int64_t i) { return std::cos(static_cast<double>(i)); }),
          {},
          Tensor::zeros({DType::u8, {s.n}}),
          Tensor::zeros({DType::u8, {s.n}}),
          Tensor::zeros({DType::f32, {blocks}}),
          Tensor::zeros({DType::f32, {blocks}})};
}

void set_gradient(const Settings& s, Operands& o, int64_t step) {
  o.g = real_tensor(s.gradient, s.n + 1, [=](int64_t i) { return gradient_at(i, step); });
}

constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-6, kRate = 0.0625;

using Named = std::vector<std::pair<std::string, Value>>;

Named results_of(const AdamResult& r) {
  return {{"p", r.parameter}, {"m", r.m}, {"v", r.v}, {"m_scales", r.m_scales}, {"v_scales", r.v_scales}};
}

// The parameter as halves that the graph splits and joins.
Named halved_update(const Settings& s, const Inputs& x, Value gradient) {
  const Value upper = x[8], lower = x[9];
  const ops::AdamUpdate op{.beta1 = kBeta1,
                           .beta2 = kBeta2,
                           .eps = kEps,
                           .decoupled = s.decoupled,
                           .has_scale = true,
                           .skip_nonfinite = true,
                           .weight_decays = {s.weight_decay},
                           .parameters_per_half = {1},
                           .moments = MomentFormat::k8bit};
  const auto out = emit_node(op, {x[5], x[6], x[7], upper, lower, gradient, x[1], x[2], x[3], x[4]});
  return {{"p", join_halves(out[0], out[1])},
          {"m", out[2]},
          {"v", out[3]},
          {"m_scales", out[4]},
          {"v_scales", out[5]}};
}

// Runs one step; returns p, m, v, m_scales and v_scales.
NamedTensors step_of(const Settings& s, const Operands& o, int64_t step, const std::string& device = "cpu") {
  const AdamOptions options{kBeta1, kBeta2, kEps, s.weight_decay, s.decoupled, true};
  std::vector<uint16_t> upper, lower;
  if (s.halves)
    for (const float value : o.p.as<float>()) {
      const Halves halves = split_halves(std::bit_cast<uint32_t>(value));
      upper.push_back(halves.upper), lower.push_back(halves.lower);
    }
  const Shape shape{s.halves ? s.n : 0};
  return run_graph({{"p", o.p},
                    {"m", o.m},
                    {"v", o.v},
                    {"m_scales", o.m_scales},
                    {"v_scales", o.v_scales},
                    {"lr", Tensor::scalar<float>(static_cast<float>(kRate))},
                    {"step", Tensor::scalar<int64_t>(step)},
                    {"scale", Tensor::scalar<float>(s.scale)},
                    {"upper", Tensor::copy_of({DType::bf16, shape}, upper.data())},
                    {"lower", Tensor::copy_of({DType::i16, shape}, lower.data())},
                    {"g", o.g}},
                   [&](const Inputs& x) {
                     const Value gradient = narrow(x[10], 0, s.misaligned, s.n);
                     if (s.halves) return halved_update(s, x, gradient);
                     return results_of(adam_update(x[0], gradient, CodedMoments{x[1], x[2], x[3], x[4]}, x[5],
                                                   x[6], options, x[7]));
                   },
                   {.device = device});
}

Operands next_operands(const NamedTensors& out) {
  return {out.at("p"), {}, out.at("m"), out.at("v"), out.at("m_scales"), out.at("v_scales")};
}

double decoded(const std::vector<double>& magnitudes, double code, double scale, bool is_signed) {
  if (!is_signed) return magnitudes[static_cast<size_t>(code)] * scale;
  return (code >= 128 ? -1 : 1) * magnitudes[static_cast<size_t>(code) % 128] * scale;
}

// Checks that `codes` and `scales` are the nearest to `expected`.
void expect_encoded(const std::vector<double>& expected, const Tensor& codes, const Tensor& scales,
                    bool is_signed) {
  const std::vector<double> magnitudes = is_signed ? magnitudes_of_m() : magnitudes_of_v();
  const auto code = codes.to_doubles(), scale = scales.to_doubles();
  for (size_t block = 0; block < scale.size(); ++block) {
    double greatest = 0;
    for (size_t i = block * kMomentBlock; i < (block + 1) * kMomentBlock; ++i)
      greatest = std::max(greatest, std::abs(expected[i]));
    ASSERT_NEAR(scale[block], greatest, 2e-6 * greatest);
    for (size_t i = block * kMomentBlock; i < (block + 1) * kMomentBlock; ++i) {
      const double size = std::abs(expected[i]) / scale[block];
      const double bound = size < magnitudes[1] ? magnitudes[1] : distance_to_nearest(magnitudes, size);
      ASSERT_LE(std::abs(decoded(magnitudes, code[i], scale[block], is_signed) - expected[i]),
                scale[block] * (bound * 1.0001 + 1e-6))
          << "element " << i;
    }
  }
}

// Compares a step with the formulas in double precision, from the same codes.
void expect_step(const Settings& s, const Operands& before, int64_t step, const NamedTensors& after) {
  const auto p = before.p.to_doubles(), g = before.g.to_doubles(), m_codes = before.m.to_doubles(),
             v_codes = before.v.to_doubles(), m_scales = before.m_scales.to_doubles(),
             v_scales = before.v_scales.to_doubles(), got = after.at("p").to_doubles();
  const std::vector<double> of_m = magnitudes_of_m(), of_v = magnitudes_of_v();
  std::vector<double> m, v;
  const double tolerance = s.parameter == DType::f32 ? 4e-6 : s.parameter == DType::f16 ? 2e-3 : 0.02;
  for (size_t i = 0; i < p.size(); ++i) {
    const double decay = s.weight_decay * p[i];
    const double gradient = g[i + s.misaligned] * s.scale + (s.decoupled ? 0 : decay);
    m.push_back(kBeta1 * decoded(of_m, m_codes[i], m_scales[i / kMomentBlock], true) +
                (1 - kBeta1) * gradient);
    v.push_back(kBeta2 * decoded(of_v, v_codes[i], v_scales[i / kMomentBlock], false) +
                (1 - kBeta2) * gradient * gradient);
    const double root = std::sqrt(v[i] / (1 - std::pow(kBeta2, step))) + kEps;
    const double expected =
        p[i] - kRate * ((s.decoupled ? decay : 0) + m[i] / (1 - std::pow(kBeta1, step)) / root);
    ASSERT_NEAR(got[i], expected, tolerance * std::max(1.0, std::abs(expected))) << i << " step " << step;
  }
  expect_encoded(m, after.at("m"), after.at("m_scales"), true);
  expect_encoded(v, after.at("v"), after.at("v_scales"), false);
}

std::vector<std::string> devices() {
  return why_no_cuda().empty() ? std::vector<std::string>{"cpu", "cuda"} : std::vector<std::string>{"cpu"};
}

// The CPU and GPUs agree in the codes and their scales bit for bit unless the parameter is part of the gradient.
void check_steps(const Settings& s) {
  Operands at = first_operands(s);
  for (int64_t step = 1; step <= 6; ++step) {
    set_gradient(s, at, step);
    NamedTensors first;
    for (const std::string& device : devices()) {
      SCOPED_TRACE(device);
      const NamedTensors out = step_of(s, at, step, device);
      expect_step(s, at, step, out);
      if (first.empty()) first = out;
      for (const auto& [name, tensor] : out)
        if (name != "p" && s.decoupled) {
          ASSERT_EQ(tensor.to_doubles(), first.at(name).to_doubles()) << name << " after step " << step;
        }
    }
    at = next_operands(first);
  }
}

TEST(CodedAdam, IsTheFormulaOfItsDecodedMoments) {
  check_steps({.n = 256});
  check_steps({.n = 20 * 1024 + 256, .decoupled = false});
  check_steps({.gradient = DType::bf16, .n = 17 * 1024, .misaligned = true});
  check_steps({.parameter = DType::bf16, .gradient = DType::bf16, .n = 1024});
  check_steps({.parameter = DType::f16, .n = 512, .misaligned = true});
}

// Halves give the bits of an f32 parameter.
TEST(CodedAdam, UpdatesHalves) {
  for (const bool misaligned : {false, true})
    for (const std::string& device : devices()) {
      Settings s{.gradient = DType::bf16, .n = 5 * 1024, .misaligned = misaligned};
      Operands at = first_operands(s);
      for (int64_t step = 1; step <= 3; ++step) {
        set_gradient(s, at, step);
        s.halves = false;
        const NamedTensors plain = step_of(s, at, step, device);
        s.halves = true;
        const NamedTensors halved = step_of(s, at, step, device);
        for (const auto& [name, tensor] : plain)
          ASSERT_EQ(halved.at(name).to_doubles(), tensor.to_doubles()) << name << " on " << device;
        at = next_operands(plain);
      }
    }
}

// A step is skipped if its scale is not finite. A gradient that is NaN makes its block NaN and no other one.
TEST(CodedAdam, SkipsAndKeepsNaN) {
  for (const std::string& device : devices()) {
    Settings s{.n = 1024};
    Operands at = first_operands(s);
    set_gradient(s, at, 1);
    at = next_operands(step_of(s, at, 1));
    set_gradient(s, at, 2);
    s.scale = INFINITY;
    const NamedTensors skipped = step_of(s, at, 2, device);
    EXPECT_EQ(skipped.at("p").to_doubles(), at.p.to_doubles());
    EXPECT_EQ(skipped.at("m").to_doubles(), at.m.to_doubles());
    EXPECT_EQ(skipped.at("v").to_doubles(), at.v.to_doubles());
    EXPECT_EQ(skipped.at("m_scales").to_doubles(), at.m_scales.to_doubles());
    EXPECT_EQ(skipped.at("v_scales").to_doubles(), at.v_scales.to_doubles());
    s.scale = 1;
    at.g = real_tensor(DType::f32, s.n + 1, [](int64_t i) { return i == 300 ? NAN : 0.1; });
    const NamedTensors out = step_of(s, at, 2, device);
    for (const char* scales : {"m_scales", "v_scales"}) {
      const auto values = out.at(scales).to_doubles();
      EXPECT_EQ(std::isnan(values[1]), true) << scales << " on " << device;
      EXPECT_EQ(std::isfinite(values[0]) && std::isfinite(values[2]), true) << scales << " on " << device;
    }
  }
}

// One node for two parameters gives the bits of two nodes.
TEST(CodedAdam, UpdatesManyAsOneByOne) {
  for (const std::string& device : devices()) {
    const Settings s{.n = 768};
    Operands at = first_operands(s);
    set_gradient(s, at, 1);
    at.g = real_tensor(DType::f32, s.n, [](int64_t i) { return gradient_at(i, 1); });
    const NamedTensors out =
        run_graph({{"p", at.p},
                   {"g", at.g},
                   {"c", at.m},
                   {"s", at.m_scales},
                   {"lr", Tensor::scalar<float>(0.1f)},
                   {"step", Tensor::scalar<int64_t>(1)}},
                  [](const Inputs& x) {
                    const Value q = x[0] * 2.0, h = x[1] * 3.0;
                    const auto many = emit_node(
                        ops::AdamUpdate{.weight_decays = {0.1, 0.2}, .moments = MomentFormat::k8bit},
                        {x[4], x[5], x[0], q, x[1], h, x[2], x[2], x[2], x[2], x[3], x[3], x[3], x[3]});
                    const CodedMoments moments{x[2], x[2], x[3], x[3]};
                    const AdamResult a = adam_update(x[0], x[1], moments, x[4], x[5], {.weight_decay = 0.1}),
                                     b = adam_update(q, h, moments, x[4], x[5], {.weight_decay = 0.2});
                    Named named;
                    const Value one[] = {a.parameter, b.parameter, a.m,        b.m,        a.v,
                                         b.v,         a.m_scales,  b.m_scales, a.v_scales, b.v_scales};
                    for (size_t i = 0; i < many.size(); ++i) {
                      named.emplace_back("many" + std::to_string(i), many[i]);
                      named.emplace_back("one" + std::to_string(i), one[i]);
                    }
                    return named;
                  },
                  {.device = device});
    for (size_t i = 0; i < 10; ++i)
      EXPECT_EQ(out.at("many" + std::to_string(i)).to_doubles(),
                out.at("one" + std::to_string(i)).to_doubles())
          << i << " on " << device;
  }
}

TEST(CodedAdam, RefusesWhatDoesNotFit) {
  const TensorType p{DType::f32, {2, 512}}, codes{DType::u8, {2, 512}}, scales{DType::f32, {2, 2}},
      flat{DType::f32, {4}}, lr{DType::f32, {}}, step{DType::i64, {}};
  const auto infer = [&](std::vector<TensorType> in) {
    infer_case(in, [](const Inputs& x) {
      return Outputs{adam_update(x[0], x[1], CodedMoments{x[2], x[3], x[4], x[5]}, x[6], x[7], {}).parameter};
    });
  };
  infer({p, p, codes, codes, scales, scales, lr, step});
  expect_error(
      [&] {
        infer({p, p, p, codes, scales, scales, lr, step});
      },
      {"the codes of m must be u8[2,512]", "f32[2,512]"});
  expect_error(
      [&] {
        infer({p, p, codes, codes, scales, flat, lr, step});
      },
      {"the scales of v must be f32[2,2]", "f32[4]"});
  const TensorType odd{DType::f32, {2, 100}};
  expect_error(
      [&] {
        infer({odd, odd, codes, codes, scales, scales, lr, step});
      },
      {"multiple of 256", "f32[2,100]"});
  EXPECT_EQ(ops::moment_scales_shape(Shape{Dim(8), Dim(96)}).to_string(), "[3]") << "flat";
  EXPECT_EQ(ops::moment_scales_shape(Shape{Dim(8), Dim(3), Dim(768)}).to_string(), "[8,3,3]");
  EXPECT_EQ(ops::moment_scales_shape(Shape{Dim(8), Dim(24), Dim(32)}).to_string(), "[8,3]");
  EXPECT_EQ(ops::moment_scales_shape(Shape{Dim(2), Dim(8), Dim(16), Dim(32)}).to_string(), "[2,8,2]");
  EXPECT_EQ(ops::moment_scales_shape(Shape{Dim(1024)}).to_string(), "[4]");
}

// Ranks share the first axis of the experts' weights, so no block may lie in two experts.
TEST(CodedAdam, BlocksDoNotCrossTheFirstAxisOfMoreThanTwo) {
  const auto fits = [](Shape shape) { return ops::can_have_moment_codes({DType::f32, std::move(shape)}); };
  EXPECT_TRUE(fits({8, 96}));
  EXPECT_TRUE(fits({8, 24, 32}));
  EXPECT_FALSE(fits({8, 24, 24}));
  EXPECT_FALSE(fits({256, 3, 3}));
  EXPECT_TRUE(fits({0, 3, 3}));
}

}  // namespace
}  // namespace genesis::testing
