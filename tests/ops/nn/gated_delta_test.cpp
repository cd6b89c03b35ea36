// Tests the gated delta rule and Mamba2 against loops: chunks of tokens, texts in a row, states that go on, groups of heads, and types
// that do not fit.
#include "schema/ops/nn/gated_delta.h"

#include <cmath>

#include "schema/ops/nn/mamba2.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Sizes {
  int64_t batch = 1, time = 3, heads = 2, keys = 3, values = 2;
  int64_t groups = 0;  // Mamba2 has them, and corrects nothing; 0: the gated delta rule
};

// Returns y, and the states before and after the last token.
Refs delta(const Sizes& s, const Refs& in) {
  Refs out = {ref_zeros({s.batch, s.time, s.heads, s.values}),
              ref_zeros({s.batch, s.heads, s.keys, s.values}),
              ref_zeros({s.batch, s.heads, s.keys, s.values})};
  for (int64_t head = 0; head < s.batch * s.heads; ++head) {
    const auto at = [&](int64_t i, int64_t j) { return (head * s.keys + i) * s.values + j; };
    Ref &y = out[0], &before = out[1], &state = out[2];
    for (int64_t i = at(0, 0); in.size() > 5 && i < at(s.keys, 0); ++i) state[i] = in[5][i];
    for (int64_t t = 0; t < s.time; ++t) {
      const int64_t token = (head / s.heads * s.time + t) * s.heads + head % s.heads;
      const int64_t key =
          s.groups == 0 ? token : token / s.heads * s.groups + head % s.heads * s.groups / s.heads;
      const bool is_padding = in[3][token] == 1 && in[4][token] == 0;
      for (int64_t i = at(0, 0); i < at(s.keys, 0) && !is_padding; ++i) before[i] = state[i];
      for (int64_t j = 0; j < s.values; ++j) {
        double seen = 0;
        for (int64_t i = 0; i < s.keys; ++i)
          seen += in[1][key * s.keys + i] * (state[at(i, j)] *= in[3][token]);
        const double u = in[4][token] * (in[2][token * s.values + j] - (s.groups == 0 ? seen : 0));
        for (int64_t i = 0; i < s.keys; ++i)
          y[token * s.values + j] +=
              in[0][key * s.keys + i] * (state[at(i, j)] += in[1][key * s.keys + i] * u);
      }
    }
  }
  return out;
}

Outputs build(const Sizes& s, const Inputs& x, bool wants_states) {
  const Value state = x.values.size() > 5 ? x[5] : Value();
  std::vector<Value> all;
  if (s.groups > 0) {
    const auto [y, before, after] = mamba2(x[0], x[1], x[2], x[3], x[4], state);
    all = {y, before, after};
  } else {
    const auto [y, before, after] = gated_delta(x[0], x[1], x[2], x[3], x[4], state);
    all = {y, before, after};
  }
  return wants_states ? Outputs{all[0], all[1], all[2]} : Outputs{all[0]};
}

OpCase case_of(const std::string& name, const Sizes& s, bool has_state, bool wants_states = false) {
  const std::vector<int64_t> keys = {s.batch, s.time, s.groups == 0 ? s.heads : s.groups, s.keys},
                             gates = {s.batch, s.time, s.heads};
  OpCase op_case{.name = (s.groups == 0 ? "gated_delta_" : "mamba2_") + name,
                 .inputs = {real(keys), real(keys), real({s.batch, s.time, s.heads, s.values}),
                            real(gates, 0.3, 1), real(gates, 0.1, 0.9)},
                 .build = [s, wants_states](const Inputs& x) { return build(s, x, wants_states); },
                 .reference =
                     [s, wants_states](const Refs& x) {
                       Refs all = delta(s, x);
                       if (!wants_states) all.resize(1);
                       return all;
                     },
                 .gradient = !wants_states};
  if (has_state) op_case.inputs.push_back(real({s.batch, s.heads, s.keys, s.values}));
  return op_case;
}

TEST(GatedDelta, IsTheRecurrence) {
  check(case_of("few", {}, false));
  check(case_of("state", {.batch = 2}, true));
  check(case_of("one", {.time = 1, .heads = 1, .keys = 1, .values = 1}, true));
  check(case_of("states", {.batch = 2}, true, true));
}

// The gradient takes several chunks of tokens, and the sizes several registers and warps of a GPU.
TEST(GatedDelta, LongTextsAndWideHeads) {
  OpCase many = case_of("long", {.time = 70, .heads = 1}, true);
  many.directions = 2;
  check(many);
  OpCase wide = case_of("wide", {.time = 4, .heads = 1, .keys = 40, .values = 11}, true);
  for (size_t i : {0, 1}) wide.inputs[i] = real(wide.inputs[i].shape, -0.25, 0.25);
  wide.directions = 2;
  check(wide);
}

// A decay of 0 begins a text: what came before has no influence. A token with decay 1 and beta 0 changes no state.
TEST(GatedDelta, TextsInARowAndPadding) {
  const Sizes s{.time = 5, .heads = 1};
  OpCase texts = case_of("texts", s, true, true);
  texts.inputs[3] = real_data({1, 5, 1}, {0.5, 0.75, 0, 0.5, 1});
  texts.inputs[4] = real_data({1, 5, 1}, {0.5, 0.25, 0.5, 0.75, 0});
  check(texts);
  const auto run = [&](float first) {
    const NamedTensors results =
        run_graph({{"q", Tensor::rand({1, 2, 1, 3}, 1)},
                   {"v", Tensor::of<float>({1, 2, 1, 2}, {first, 1, 2, 3})},
                   {"decay", Tensor::of<float>({1, 2, 1}, {1, 0})},
                   {"beta", Tensor::of<float>({1, 2, 1}, {1, 0.5})}},
                  [](const Inputs& x) {
                    const GatedDeltaResult r = gated_delta(x[0], x[0], x[1], x[2], x[3]);
                    return std::vector<std::pair<std::string, Value>>{{"y", r.y}, {"after", r.after}};
                  });
    return results.at("after").to_doubles();
  };
  EXPECT_EQ(run(1), run(1e30F));
  EXPECT_EQ(run(1), run(std::numeric_limits<float>::infinity()));
}

// Returns a case of sizes that a GPU takes in chunks of 64 tokens, which end within a chunk, with texts that begin within one, and
// with padding at the end. Its products keep 16 bits of f32.
OpCase in_chunks(const std::string& name, const Sizes& s, bool has_state, bool wants_states = false) {
  OpCase op_case = case_of(name, s, has_state, wants_states);
  const double size = 1.7 / std::sqrt(static_cast<double>(s.keys));
  for (size_t i : {0, 1}) op_case.inputs[i] = real(op_case.inputs[i].shape, -size, size);
  const std::vector<int64_t> shape = op_case.inputs[3].shape;
  std::vector<double> decays, betas;
  for (int64_t i = 0; i < s.batch * s.time * s.heads; ++i) {
    const int64_t t = i / s.heads % s.time;
    const bool is_padding = t >= s.time - 3, begins = t == 20 || t == 64;
    decays.push_back(begins ? 0 : is_padding ? 1 : 0.75 + static_cast<double>(i * 37 % 64) / 256);
    betas.push_back(is_padding ? 0 : 0.125 + static_cast<double>(i * 53 % 64) / 128);
  }
  op_case.inputs[3] = real_data(shape, decays);
  op_case.inputs[4] = real_data(shape, betas);
  op_case.tolerance = 4e-5;
  op_case.directions = 2;
  return op_case;
}

TEST(GatedDelta, InChunksOfTokens) {
  check(in_chunks("chunks", {.time = 70, .heads = 1, .keys = 64, .values = 64}, true));
  check(in_chunks("chunks_wide", {.time = 40, .heads = 1, .keys = 128, .values = 128}, true));
  check(in_chunks("chunks_states", {.batch = 2, .time = 67, .keys = 64, .values = 64}, true, true));
}

TEST(GatedDelta, TypesThatDoNotFit) {
  const auto infer = [](const std::vector<TensorType>& types) {
    infer_case(types, [](const Inputs& x) {
      return Outputs{gated_delta(x[0], x[1], x[2], x[3], x[4], x.values.size() > 5 ? x[5] : Value()).y};
    });
  };
  const Dim time = Dim::symbol("time");
  const TensorType q{DType::f32, {1, time, 2, 3}}, v{DType::f32, {1, time, 2, 4}},
      gate{DType::f32, {1, time, 2}};
  infer({q, q, v, gate, gate});
  expect_error([&] { infer({q, v, v, gate, gate}); }, {"gated_delta: k is", "expected"});
  expect_error([&] { infer({q, q, v, v, gate}); }, {"gated_delta: decay is"});
  expect_error([&] { infer({q, q, v, gate, gate, q}); }, {"gated_delta: the state is"});
  expect_error([&] { infer({gate, gate, v, gate, gate}); }, {"q and v must be f32 or f64"});
}

TEST(Mamba2, IsTheRecurrence) {
  check(case_of("few", {.groups = 2}, false));
  check(case_of("state", {.batch = 2, .groups = 2}, true));
  check(case_of("one", {.time = 1, .heads = 1, .keys = 1, .values = 1, .groups = 1}, true));
  check(case_of("states", {.batch = 2, .groups = 1}, true, true));
}

// Heads share c and b, whose gradients are sums.
TEST(Mamba2, GroupsOfHeads) {
  check(case_of("group", {.groups = 1}, false));
  check(case_of("groups", {.batch = 2, .time = 2, .heads = 6, .groups = 2}, true));
}

TEST(Mamba2, LongTextsAndWideHeads) {
  OpCase many = case_of("long", {.time = 70, .heads = 2, .groups = 1}, true);
  many.directions = 2;
  check(many);
  OpCase wide = case_of("wide", {.time = 4, .heads = 1, .keys = 40, .values = 11, .groups = 1}, true);
  wide.directions = 2;
  check(wide);
}

TEST(Mamba2, TextsInARowAndPadding) {
  OpCase texts = case_of("texts", {.time = 5, .heads = 1, .groups = 1}, true, true);
  texts.inputs[3] = real_data({1, 5, 1}, {0.5, 0.75, 0, 0.5, 1});
  texts.inputs[4] = real_data({1, 5, 1}, {0.5, 0.25, 0.5, 0.75, 0});
  check(texts);
}

TEST(Mamba2, InChunksOfTokens) {
  check(in_chunks("chunks", {.time = 70, .keys = 64, .values = 64, .groups = 1}, true));
  check(in_chunks("chunks_states", {.time = 130, .heads = 1, .keys = 128, .values = 64, .groups = 1}, true,
                  true));
}

TEST(Mamba2, TypesThatDoNotFit) {
  const auto infer = [](const std::vector<TensorType>& types) {
    infer_case(types, [](const Inputs& x) {
      return Outputs{mamba2(x[0], x[1], x[2], x[3], x[4], x.values.size() > 5 ? x[5] : Value()).y};
    });
  };
  const Dim time = Dim::symbol("time");
  const TensorType c{DType::f32, {1, time, 2, 3}}, x{DType::f32, {1, time, 4, 5}},
      gate{DType::f32, {1, time, 4}}, three{DType::f32, {1, time, 3, 5}}, gate3{DType::f32, {1, time, 3}};
  infer({c, c, x, gate, gate});
  expect_error([&] { infer({c, x, x, gate, gate}); }, {"mamba2: b is", "expected"});
  expect_error([&] { infer({c, c, x, gate, x}); }, {"mamba2: step is"});
  expect_error([&] { infer({c, c, x, gate, gate, c}); }, {"mamba2: the state is"});
  expect_error([&] { infer({c, c, three, gate3, gate3}); }, {"3 heads", "multiple of the 2 groups"});
  expect_error([&] { infer({gate, gate, x, gate, gate}); }, {"c and x must be f32 or f64"});
}

}  // namespace
}  // namespace genesis::testing
