// Tests random numbers as cases of the harness, on every device and by every kernel implementation: the promised words of Philox,
// and draws of which only one result is possible. random_test.cpp looks at distributions.
#include "schema/ops/tensor/random.h"

#include <cmath>

#include "schema/core/philox.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr int64_t kElements = 5003;

CaseInput rng() { return integer_data({2}, {42, 3}); }

// Returns the word of an element that draws 32 bits. The node is the first random node of its graph.
uint32_t word_of(const Refs& x, int64_t i) {
  const PhiloxBlock block =
      philox(static_cast<uint64_t>(x[0][0]), 1, static_cast<uint32_t>(x[0][1]), static_cast<uint64_t>(i / 4));
  return block.word[i % 4];
}

double normal_of(const Refs& x, int64_t i) {
  const NormalPair pair = normals_from(word_of(x, i / 2 * 2), word_of(x, i / 2 * 2 + 1));
  return i % 2 ? pair.second : pair.first;
}

// Returns a uniform number with as many bits as the dtype has below 1.
double uniform_of(const Refs& x, int64_t i, DType dtype) {
  const int bits = dtype == DType::bf16 ? 8 : dtype == DType::f16 ? 11 : 24;
  return std::ldexp(static_cast<double>(word_of(x, i) >> (32 - bits)), -bits);
}

using Element = std::function<double(const Refs&, int64_t)>;

OpCase drawn(const std::string& name, const std::function<Value(const Inputs&)>& op, const Element& element,
             int64_t n = kElements) {
  return {.name = name,
          .inputs = {rng()},
          .build = [=](const Inputs& x) { return Outputs{op(x)}; },
          .reference =
              [=](const Refs& x) {
                Ref y = ref_zeros({n});
                for (int64_t i = 0; i < n; ++i) y[i] = element(x, i);
                return Refs{y};
              },
          .gradient = false,
          .f64 = false,
          .tolerance = 1e-6};
}

TEST(RandomCases, Reals) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::string name(name_of(dtype));
    check(drawn(
        "rand_" + name, [=](const Inputs& x) { return rand(x[0], {kElements}, dtype); },
        [=](const Refs& x, int64_t i) { return uniform_of(x, i, dtype); }));
    OpCase normal = drawn(
        "randn_" + name, [=](const Inputs& x) { return randn(x[0], {kElements}, dtype); }, normal_of);
    if (dtype != DType::f32) normal.tolerance = 0x1p-8;
    check(normal);
  }
  check(drawn(
      "rand_f64", [](const Inputs& x) { return rand(x[0], {6}, DType::f64); },
      [](const Refs& x, int64_t i) {
        const uint64_t word = uint64_t{word_of(x, 2 * i)} << 32 | word_of(x, 2 * i + 1);
        return static_cast<double>(word >> 11) * 0x1p-53;
      },
      6));
  check(drawn(
      "randn_none", [](const Inputs& x) { return randn(x[0], {0}); }, normal_of, 0));
}

TEST(RandomCases, Integers) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8})
    check(drawn(
        "randint_" + std::string(name_of(dtype)),
        [=](const Inputs& x) { return randint(x[0], {kElements}, 5, 103, dtype); },
        [](const Refs& x, int64_t i) {
          return static_cast<double>(5 + (word_of(x, i) * uint64_t{98} >> 32));
        }));
}

TEST(RandomCases, RngNext) {
  check({.name = "rng_next",
         .inputs = {rng()},
         .build = [](const Inputs& x) { return Outputs{rng_next(x[0])}; },
         .reference =
             [](const Refs& x) {
               return Refs{{{2}, {x[0][0], x[0][1] + 1}}};
             },
         .gradient = false});
}

TEST(RandomCases, BernoulliAndDropout) {
  for (const int64_t n : {0, 1, 1003}) {
    check({.name = "bernoulli_" + std::to_string(n),
           .inputs = {rng(), constant_real({n}, 0, 1)},
           .build = [](const Inputs& x) { return Outputs{bernoulli(x[0], x[1])}; },
           .reference =
               [](const Refs& x) {
                 Ref y = x[1];
                 for (int64_t i = 0; i < y.numel(); ++i)
                   y[i] = uniform_of(x, i, DType::f32) < x[1][i] ? 1 : 0;
                 return Refs{y};
               },
           .gradient = false});
    check({.name = "dropout_" + std::to_string(n),
           .inputs = {rng(), real({n})},
           .build = [](const Inputs& x) { return Outputs{dropout(x[0], x[1], 0.3)}; },
           .reference =
               [](const Refs& x) {
                 Ref y = x[1];
                 for (int64_t i = 0; i < y.numel(); ++i)
                   y[i] = uniform_of(x, i, DType::f32) >= static_cast<double>(0.3f) ? y[i] / 0.7 : 0;
                 return Refs{y};
               }});
  }
}

// Exactly one element of each row has a weight, or is the largest.
TEST(RandomCases, CertainSamples) {
  Ref weights = ref_zeros({5, 90});
  for (int64_t row = 0; row < 5; ++row) weights[row * 90 + row * 17 % 90] = 0.5 + static_cast<double>(row);
  const auto places = [](const Refs&) { return Refs{{{5, 1}, {0, 17, 34, 51, 68}}}; };
  CaseInput certain = real_data(weights.shape, weights.data);
  certain.differentiable = false;
  for (const bool replacement : {false, true})
    check({.name = "multinomial_certain",
           .inputs = {rng(), certain},
           .build = [=](const Inputs& x) { return Outputs{multinomial(x[0], x[1], 1, replacement)}; },
           .reference = places,
           .gradient = false,
           .f64 = false});
  for (const ops::SampleLogits& options : {ops::SampleLogits{.temperature = 0}, ops::SampleLogits{.top_k = 1},
                                           ops::SampleLogits{.top_p = 1e-3}, ops::SampleLogits{.min_p = 1}})
    check({.name = "sample_certain",
           .inputs = {rng(), certain},
           .build = [=](const Inputs& x) { return Outputs{sample_logits(x[0], x[1], options)}; },
           .reference =
               [](const Refs&) {
                 return Refs{{{5}, {0, 17, 34, 51, 68}}};
               },
           .gradient = false,
           .f64 = false});
}

}  // namespace
}  // namespace genesis::testing
