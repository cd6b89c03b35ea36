// Tests one step of each optimizer update, sums of squares, joined halves and dequantized weights as cases of the harness, on every
// device and by every kernel implementation. optimizer_test.cpp follows many steps.
#include <bit>
#include <cmath>

#include "schema/core/halves.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/optimizer.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr double kLr = 0.125, kScale = 0.5;
constexpr int64_t kStep = 3;

CaseInput kept(CaseInput input) {
  input.differentiable = false;
  input.keep_dtype = true;
  return input;
}

// Returns p, g, m, v, lr, step, scale. Moments are f32 whatever the dtype of the parameter.
std::vector<CaseInput> update_inputs(int64_t n) {
  return {constant_real({n}, -2, 2),    constant_real({n}, -4, 4),  kept(real({n}, -1, 1)),
          kept(real({n}, 0, 1)),        kept(real_data({}, {kLr})), integer_data({}, {double(kStep)}),
          kept(real_data({}, {kScale}))};
}

struct Element {
  double p, g, m, v;
};
using Formula = std::function<void(Element&)>;  // g is scaled

// Returns what the formula makes of parameter and moments, the first `count` of p, m and v.
Refs updated(const Refs& x, size_t count, const Formula& formula) {
  Refs results = {x[0], x[2], x[3]};
  for (int64_t i = 0; i < x[0].numel(); ++i) {
    Element e{x[0][i], x[1][i] * kScale, x[2][i], x[3][i]};
    formula(e);
    results[0][i] = e.p, results[1][i] = e.m, results[2][i] = e.v;
  }
  results.resize(count);
  return results;
}

void check_update(const std::string& name, size_t count, const std::function<Outputs(const Inputs&)>& build,
                  const Formula& formula) {
  for (const int64_t n : {0, 1, 37, 600}) {
    OpCase one{.name = name + std::to_string(n),
               .inputs = update_inputs(n),
               .build = build,
               .reference = [=](const Refs& x) { return updated(x, count, formula); },
               .gradient = false,
               .f64 = false};
    check(one);
    for (CaseInput& input : one.inputs)
      if (input.dtype == DType::f32) input.dtype = DType::f64;
    one.name += "_f64";
    one.low_precision = false;
    one.tolerance = 1e-12;
    check(one);
  }
}

TEST(UpdateCases, Sgd) {
  check_update(
      "sgd", 1,
      [](const Inputs& x) {
        return Outputs{sgd_update(x[0], x[1], {}, x[4], x[5], {.weight_decay = 0.1}, x[6]).parameter};
      },
      [](Element& e) { e.p -= kLr * (e.g + 0.1 * e.p); });
  check_update(
      "sgd_nesterov", 2,
      [](const Inputs& x) {
        const auto r = sgd_update(x[0], x[1], x[2], x[4], x[5], {.momentum = 0.75, .nesterov = true}, x[6]);
        return Outputs{r.parameter, r.momentum};
      },
      [](Element& e) {
        e.m = 0.75 * e.m + e.g;
        e.p -= kLr * (e.g + 0.75 * e.m);
      });
}

TEST(UpdateCases, Lion) {
  const LionOptions o{.beta1 = 0.75, .beta2 = 0.875, .weight_decay = 0.25};
  check_update(
      "lion", 2,
      [=](const Inputs& x) {
        const auto r = lion_update(x[0], x[1], x[2], x[4], o, x[6]);
        return Outputs{r.parameter, r.momentum};
      },
      [=](Element& e) {
        const double u = o.beta1 * e.m + (1 - o.beta1) * e.g;
        e.p -= kLr * ((u > 0) - (u < 0) + o.weight_decay * e.p);
        e.m = o.beta2 * e.m + (1 - o.beta2) * e.g;
      });
}

TEST(UpdateCases, Adam) {
  for (const bool decoupled : {false, true}) {
    const AdamOptions o{
        .beta1 = 0.75, .beta2 = 0.875, .eps = 1e-3, .weight_decay = 0.25, .decoupled = decoupled};
    check_update(
        decoupled ? "adamw" : "adam", 3,
        [=](const Inputs& x) {
          const auto r = adam_update(x[0], x[1], x[2], x[3], x[4], x[5], o, x[6]);
          return Outputs{r.parameter, r.m, r.v};
        },
        [=](Element& e) {
          if (decoupled)
            e.p -= kLr * o.weight_decay * e.p;
          else
            e.g += o.weight_decay * e.p;
          e.m = o.beta1 * e.m + (1 - o.beta1) * e.g;
          e.v = o.beta2 * e.v + (1 - o.beta2) * e.g * e.g;
          const double m = e.m / (1 - std::pow(o.beta1, kStep)), v = e.v / (1 - std::pow(o.beta2, kStep));
          e.p -= kLr * m / (std::sqrt(v) + o.eps);
        });
  }
}

TEST(UpdateCases, SumOfSquares) {
  OpCase one{.name = "sum_squares",
             .inputs = {real({5, 7}), real({0, 3}), real({}), real({1001})},
             .build = [](const Inputs& x) { return Outputs{emit(ops::SumSquares{}, x.values)}; },
             .reference =
                 [](const Refs& x) {
                   Ref y = ref_zeros({});
                   for (const Ref& input : x)
                     for (const double v : input.data) y[0] += v * v;
                   return Refs{y};
                 },
             .gradient = false};
  one.terms = one.reference;
  check(one);
}

TEST(UpdateCases, JoinedHalves) {
  for (const int64_t n : {0, 1, 37, 70004}) {
    CaseInput upper = real({n}), lower = integers({n}, -32768, 32768, DType::i16);
    upper = kept(upper);
    for (int64_t i = 0; i < n; ++i)
      upper.values.push_back(static_cast<float>(bf16(std::sin(static_cast<float>(i)) * 1e3f)));
    check({.name = "join_halves_" + std::to_string(n),
           .inputs = {upper, lower},
           .build = [](const Inputs& x) { return Outputs{join_halves(cast(x[0], DType::bf16), x[1])}; },
           .reference =
               [](const Refs& x) {
                 Ref y = x[0];
                 for (int64_t i = 0; i < y.numel(); ++i) {
                   const Halves halves{bf16(static_cast<float>(x[0][i])).bits,
                                       static_cast<uint16_t>(static_cast<int16_t>(x[1][i]))};
                   y[i] = std::bit_cast<float>(join_halves(halves));
                 }
                 return Refs{y};
               },
           .gradient = false,
           .low_precision = false,
           .f64 = false,
           .tolerance = 0});
  }
}

TEST(UpdateCases, DequantizedWeights) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const bool is_q4 : {false, true})
      check(
          {.name = std::string("dequantize_") + (is_q4 ? "q4_" : "q8_") + std::string(name_of(dtype)),
           .inputs = {is_q4 ? integers({3, 48}, 0, 256, DType::u8) : integers({3, 96}, -127, 128, DType::i8),
                      kept(real({3, 3}))},
           .build =
               [=](const Inputs& x) {
                 return Outputs{dequantize(is_q4 ? WeightFormat::kQ4 : WeightFormat::kQ8, x[0],
                                           cast(x[1], DType::f16), dtype)};
               },
           .reference =
               [=](const Refs& x) {
                 Ref y = ref_zeros({3, 96});
                 for (int64_t i = 0; i < y.numel(); ++i) {
                   const int64_t row = i / 96, k = i % 96;
                   const auto byte = static_cast<int>(is_q4 ? x[0][row * 48 + k / 32 * 16 + k % 16] : 0);
                   const double quant = is_q4 ? (k % 32 < 16 ? byte & 15 : byte >> 4) - 8 : x[0][i];
                   y[i] = quant * static_cast<float>(f16(static_cast<float>(x[1][row * 3 + k / 32])));
                 }
                 return Refs{y};
               },
           .gradient = false,
           .low_precision = false,
           .f64 = false,
           .tolerance = is_low_precision(dtype) ? 0x1p-8 : 1e-7});
}

}  // namespace
}  // namespace genesis::testing
