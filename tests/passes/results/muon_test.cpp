// Tests Muon against 50 steps of torch.optim.Muon (muon.json, made by make_muon.py).
#include "passes/training/muon.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "executor/session.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

constexpr const char* kNetwork = R"(
state @a.weight: f32[24,6] parameter trainable
state @a.bias: f32[24] parameter trainable
state @b.weight: f32[5,24] parameter trainable
state @b.bias: f32[5] parameter trainable
entry loss(x: f32[batch,6], y: f32[batch,5]) {
  %a = linear(x, @a.weight, @a.bias)
  %hidden = tanh(%a)
  %b = linear(%hidden, @b.weight, @b.bias)
  %error = sub(%b, y)
  %squares = square(%error)
  %loss = mean(%squares)
  return loss = %loss
}
)";

Tensor numbers(const std::vector<int64_t>& sizes, double phase, double scale) {
  std::vector<float> values;
  const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  for (int64_t k = 0; k < n; ++k) {
    const double i = double(k);
    values.push_back(static_cast<float>(scale * std::sin(0.7 * i + 0.013 * i * i + phase)));
  }
  return Tensor::of<float>(sizes, values);
}

std::unique_ptr<Session> training(const std::string& options) {
  std::shared_ptr<Model> model = parse_text(kNetwork);
  add_train_step(*model, parse_train_options(options));
  auto session = std::make_unique<Session>(model);
  session->set_state("a.weight", numbers({24, 6}, 0, 0.4));
  session->set_state("a.bias", numbers({24}, 1, 0.1));
  session->set_state("b.weight", numbers({5, 24}, 2, 0.2));
  session->set_state("b.bias", numbers({5}, 3, 0.1));
  return session;
}

void expect_curve(const std::string& options, const std::vector<double>& expected, double tolerance) {
  const auto session = training(options);
  const NamedTensors data = {{"x", numbers({16, 6}, 4, 1)}, {"y", numbers({16, 5}, 5, 1)}};
  ASSERT_EQ(expected.size(), 50u);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(session->run("train_step", data).at("loss").to_doubles()[0], expected[i],
                tolerance * expected[i])
        << options << " step " << i;
}

nlohmann::json golden() {
  return parse_json_text(
      read_whole_file(std::string(GENESIS_SOURCE_ROOT) + "/tests/passes/results/muon.json"));
}

TEST(Muon, IsThatOfPyTorch) {
  const nlohmann::json json = golden();
  ASSERT_EQ(json.at("curves").size(), 3u);
  for (const auto& [options, curve] : json.at("curves").items())
    expect_curve(options + ",adamw_lr=0.01", curve.get<std::vector<double>>(), 1e-4);
}

// Iterating in bf16 rounds where torch does not, so the curve is close and not equal.
TEST(Muon, IteratesInBf16WithTheTraining) {
  const auto curve = golden().at("bf16_curve").get<std::vector<double>>();
  expect_curve("muon,lr=0.02,weight_decay=0.05,adamw_lr=0.01,precision=bf16", curve, 0.01);
}

TEST(Muon, LeavesTablesHeadsAndVectorsToAdamW) {
  std::shared_ptr<Model> model = parse_text(R"(
state @embed: f32[7,4] parameter trainable
state @fc: f32[4,4] parameter trainable
state @norm: f32[4] parameter trainable
state @head: f32[7,4] parameter trainable
entry loss(x: i64[batch], y: i64[batch]) {
  %e = embedding(x, @embed)
  %f = linear(%e, @fc)
  %n = mul(%f, @norm)
  %loss = linear_cross_entropy(%n, @head, y)
  return loss = %loss
}
)");
  const auto kinds = [&](const std::string& options) {
    const auto copy = std::make_shared<Model>(*model);
    add_train_step(*copy, parse_train_options(options));
    std::string text;
    for (const char* name : {"embed", "fc", "norm", "head"})
      text += copy->find_state(std::string("optimizer.") + name + ".momentum") >= 0 ? 'm' : 'a';
    return text;
  };
  EXPECT_EQ(kinds("muon"), "amaa");
  EXPECT_EQ(kinds("muon,group={head:optimizer=muon}"), "amam");
  EXPECT_EQ(kinds("muon,group={fc:optimizer=adamw}"), "aaaa");
  EXPECT_EQ(kinds("muon,precision=bf16"), "amaa");
  EXPECT_THROW(kinds("muon,group={norm:optimizer=muon}"), Error);
  EXPECT_THROW(kinds("adamw,group={fc:optimizer=muon}"), Error);
  EXPECT_THROW(kinds("muon,group={fc:optimizer=sgd}"), Error);
}

}  // namespace
}  // namespace genesis::passes
