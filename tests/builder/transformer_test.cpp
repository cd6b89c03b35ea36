// Tests layers of transformers against plain loops in double.
#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

// Multiplies a row of x by the rows [from, from + count) of weight.
Doubles project(const Doubles& x, size_t row, size_t in, const Doubles& weight, const Doubles& bias,
                size_t from, size_t count) {
  Doubles y(count);
  for (size_t o = 0; o < count; ++o) {
    y[o] = bias.empty() ? 0 : bias[from + o];
    for (size_t i = 0; i < in; ++i) y[o] += x[row * in + i] * weight[(from + o) * in + i];
  }
  return y;
}

struct Case {
  size_t batch, query_time, key_time, embed, heads;
};

// `sees(b, h, i, j)` returns true if query i of head h may read key j.
template <class Sees>
Doubles attention_reference(const Case& c, const Model& model, const Doubles& query, const Doubles& key,
                            const Doubles& value, bool bias, const Sees& sees) {
  const Doubles weight = state_of(model, "attn.in_proj_weight"),
                out = state_of(model, "attn.out_proj.weight");
  const Doubles in_bias = bias ? state_of(model, "attn.in_proj_bias") : Doubles{},
                out_bias = bias ? state_of(model, "attn.out_proj.bias") : Doubles{};
  const size_t e = c.embed, d = e / c.heads;
  Doubles y;
  for (size_t b = 0; b < c.batch; ++b)
    for (size_t i = 0; i < c.query_time; ++i) {
      const Doubles q = project(query, b * c.query_time + i, e, weight, in_bias, 0, e);
      Doubles mixed(e);
      for (size_t h = 0; h < c.heads; ++h) {
        double total = 0;
        Doubles sum(d);
        for (size_t j = 0; j < c.key_time; ++j) {
          if (!sees(b, h, i, j)) continue;
          const Doubles k = project(key, b * c.key_time + j, e, weight, in_bias, e, e);
          const Doubles v = project(value, b * c.key_time + j, e, weight, in_bias, 2 * e, e);
          double score = 0;
          for (size_t t = 0; t < d; ++t) score += q[h * d + t] * k[h * d + t];
          const double p = std::exp(score / std::sqrt(static_cast<double>(d)));
          total += p;
          for (size_t t = 0; t < d; ++t) sum[t] += p * v[h * d + t];
        }
        for (size_t t = 0; t < d; ++t) mixed[h * d + t] = sum[t] / total;
      }
      for (double value_out : project(mixed, 0, e, out, out_bias, 0, e)) y.push_back(value_out);
    }
  return y;
}

TEST(Transformer, MultiheadAttentionIsPyTorchs) {
  Model model;
  const nn::MultiheadAttention attn(Scope(model, 1) / "attn", 8, 2);
  EXPECT_EQ(state_names(model), (Names{"attn.in_proj_weight f32[24,8]", "attn.in_proj_bias f32[24]",
                                       "attn.out_proj.weight f32[8,8]", "attn.out_proj.bias f32[8]"}));
  EXPECT_EQ(state_of(model, "attn.in_proj_bias"), Doubles(24, 0.0));
  EXPECT_EQ(state_of(model, "attn.out_proj.bias"), Doubles(8, 0.0));
  const double bound = std::sqrt(6.0 / (24 + 8));  // xavier
  for (double value : state_of(model, "attn.in_proj_weight")) EXPECT_LE(std::abs(value), bound);
  scramble(model);
  const Case c{2, 3, 3, 8, 2};
  const Tensor x = wave_tensor({2, 3, 8}, 0.2);
  const Doubles data = x.to_doubles();
  expect_near(run_layer(model, {x}, [&](const auto& v) { return attn(v[0]); }).y(),
              attention_reference(c, model, data, data, data, true, [](auto...) { return true; }), 1e-5);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return attn(v[0], true); }).y(),
              attention_reference(c, model, data, data, data, true,
                                  [](size_t, size_t, size_t i, size_t j) { return j <= i; }),
              1e-5);
}

TEST(Transformer, MultiheadAttentionAcrossWithAMaskAndWithoutBias) {
  Model model;
  const nn::MultiheadAttention attn(Scope(model) / "attn", 8, 4, false);
  EXPECT_EQ(state_names(model), (Names{"attn.in_proj_weight f32[24,8]", "attn.out_proj.weight f32[8,8]"}));
  scramble(model);
  const Tensor query = wave_tensor({1, 2, 8}, 0.2), key = wave_tensor({1, 4, 8}, 0.9),
               value = wave_tensor({1, 4, 8}, 2.1);
  const std::vector<bool> sees = {true, false, true, true, false, true, true, false};
  const Tensor mask = Tensor::of<bool>({2, 4}, sees);
  const LayerRun run = run_layer(model, {query, key, value, mask},
                                 [&](const auto& v) { return attn(v[0], v[1], v[2], false, v[3]); });
  EXPECT_EQ(run.outputs.at("y").type().shape.to_string(), "[1,2,8]");
  expect_near(
      run.y(),
      attention_reference({1, 2, 4, 8, 4}, model, query.to_doubles(), key.to_doubles(), value.to_doubles(),
                          false, [&](size_t, size_t, size_t i, size_t j) { return bool(sees[i * 4 + j]); }),
      1e-5);
}

TEST(Transformer, MultiheadAttentionOverKeysAndValuesOfOtherSizes) {
  Model model;
  const nn::MultiheadAttention attn(Scope(model) / "attn", 4, 2, {.kdim = 3, .vdim = 5});
  EXPECT_EQ(state_names(model), (Names{"attn.q_proj_weight f32[4,4]", "attn.k_proj_weight f32[4,3]",
                                       "attn.v_proj_weight f32[4,5]", "attn.in_proj_bias f32[12]",
                                       "attn.out_proj.weight f32[4,4]", "attn.out_proj.bias f32[4]"}));
  scramble(model);
  const auto project = [&](const Doubles& x, size_t rows, const char* weight, size_t part) {
    const Doubles w = state_of(model, weight), b = state_of(model, "attn.in_proj_bias");
    const size_t in = w.size() / 4;
    Doubles y;
    for (size_t r = 0; r < rows; ++r)
      for (size_t o = 0; o < 4; ++o) {
        double sum = b[part * 4 + o];
        for (size_t i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
        y.push_back(sum);
      }
    return y;
  };
  const Tensor query = wave_tensor({1, 2, 4}, 0.2), key = wave_tensor({1, 3, 3}, 0.9),
               value = wave_tensor({1, 3, 5}, 2.1);
  // The result equals that of a layer of one size on inputs that are already projected.
  Model plain_model;
  const nn::MultiheadAttention plain(Scope(plain_model) / "attn", 4, 2);
  std::vector<float> identity(48);
  for (size_t i = 0; i < 12; ++i) identity[i * 4 + i % 4] = 1;
  plain_model.set_initial(plain.in_proj_weight.index, Tensor::of<float>({12, 4}, identity));
  for (const char* name : {"attn.out_proj.weight", "attn.out_proj.bias"})
    plain_model.set_initial(plain_model.find_state(name), model.state(model.find_state(name)).initial);
  const auto projected = [&](const Tensor& x, int64_t rows, const char* weight, size_t part) {
    return tensor({1, rows, 4}, project(x.to_doubles(), static_cast<size_t>(rows), weight, part));
  };
  expect_near(
      run_layer(model, {query, key, value}, [&](const auto& v) { return attn(v[0], v[1], v[2]); }).y(),
      run_layer(plain_model,
                {projected(query, 2, "attn.q_proj_weight", 0), projected(key, 3, "attn.k_proj_weight", 1),
                 projected(value, 3, "attn.v_proj_weight", 2)},
                [&](const auto& v) { return plain(v[0], v[1], v[2]); })
          .y(),
      1e-5);
}

// With a probability that practically drops nothing, the weights after dropout equal those of the op.
TEST(Transformer, MultiheadAttentionDropsItsWeightsInTraining) {
  Model model;
  const nn::MultiheadAttention attn(Scope(model) / "attn", 8, 2, {.dropout = 1e-12}),
      half(Scope(model) / "half", 8, 2, {.dropout = 0.5});
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 8}, 0.2), bools = Tensor::of<bool>({3, 3}, {0, 0, 0, 1, 0, 1, 1, 1, 1}),
               added = wave_tensor({2, 1, 3, 3}, 0.7);
  for (const Tensor& mask : {bools, added})
    for (const bool causal : {false, true}) {
      const auto layer = [&](const auto& v) { return attn(v[0], v[0], v[0], causal, v[1]); };
      expect_near(run_layer(model, {x, mask}, layer, Mode::kTrain).y(),
                  run_layer(model, {x, mask}, layer).y(), 1e-5);
    }
  const auto layer = [&](const auto& v) { return half(v[0], true); };
  EXPECT_NE(run_layer(model, {x}, layer, Mode::kTrain).y(), run_layer(model, {x}, layer).y());
  expect_error([&] { nn::MultiheadAttention(Scope(model) / "bad", 8, 2, {.dropout = 2}); }, {"bad", "2"});
}

TEST(Transformer, MultiheadAttentionRefusesHeadsThatDoNotDivide) {
  Model model;
  expect_error([&] { nn::MultiheadAttention(Scope(model) / "attn", 8, 3); }, {"attn", "8", "num_heads 3"});
  expect_error([&] { nn::MultiheadAttention(Scope(model) / "attn", 8, 0); }, {"attn", "8", "num_heads 0"});
  EXPECT_TRUE(model.states().empty()) << "a refused layer leaves nothing behind";
  const nn::MultiheadAttention attn(Scope(model) / "attn", 8, 2);
}

TEST(Transformer, FeedForwardSwiGlu) {
  Model model;
  const nn::FeedForwardSwiGLU mlp(Scope(model) / "mlp", 4, 6);
  EXPECT_EQ(state_names(model), (Names{"mlp.gate_proj.weight f32[6,4]", "mlp.up_proj.weight f32[6,4]",
                                       "mlp.down_proj.weight f32[4,6]"}));
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 4}, 0.2);
  Doubles expected;
  for (size_t row = 0; row < 6; ++row) {
    Doubles h = project(x.to_doubles(), row, 4, state_of(model, "mlp.gate_proj.weight"), {}, 0, 6);
    const Doubles up = project(x.to_doubles(), row, 4, state_of(model, "mlp.up_proj.weight"), {}, 0, 6);
    for (size_t i = 0; i < 6; ++i) h[i] = h[i] / (1 + std::exp(-h[i])) * up[i];
    for (double value : project(h, 0, 6, state_of(model, "mlp.down_proj.weight"), {}, 0, 4))
      expected.push_back(value);
  }
  expect_near(run_layer(model, {x}, [&](const auto& v) { return mlp(v[0]); }).y(), expected);
}

TEST(Transformer, FeedForwardSwiGluWithBias) {
  Model model;
  const nn::FeedForwardSwiGLU mlp(Scope(model) / "mlp", 4, 6, true);
  EXPECT_EQ(model.states().size(), 6u);
  EXPECT_EQ(model.state(model.find_state("mlp.gate_proj.bias")).type.to_string(), "f32[6]");
  EXPECT_EQ(model.state(model.find_state("mlp.down_proj.bias")).type.to_string(), "f32[4]");
}

void expect_rotation(RopeKind kind) {
  Model model;
  const Tensor x = wave_tensor({1, 3, 2, 4}, 0.2), positions = Tensor::of<int64_t>({3}, {0, 5, 9});
  const nn::RotaryEmbedding rotary{.theta = 100, .kind = kind};
  const LayerRun run = run_layer(model, {x, positions}, [&](const auto& v) { return rotary(v[0], v[1]); });
  const Doubles data = x.to_doubles();
  Doubles expected(data.size());
  const double at[] = {0, 5, 9};
  for (size_t t = 0; t < 3; ++t)
    for (size_t h = 0; h < 2; ++h)
      for (size_t pair = 0; pair < 2; ++pair) {
        const double angle = at[t] * std::pow(100.0, -2.0 * static_cast<double>(pair) / 4);
        const size_t head = (t * 2 + h) * 4, a = head + (kind == RopeKind::kHalf ? pair : 2 * pair),
                     b = a + (kind == RopeKind::kHalf ? 2 : 1);
        expected[a] = data[a] * std::cos(angle) - data[b] * std::sin(angle);
        expected[b] = data[b] * std::cos(angle) + data[a] * std::sin(angle);
      }
  expect_near(run.y(), expected);
}

TEST(Transformer, RotaryEmbeddingByHalves) { expect_rotation(RopeKind::kHalf); }
TEST(Transformer, RotaryEmbeddingInterleaved) { expect_rotation(RopeKind::kInterleaved); }

}  // namespace
}  // namespace genesis
