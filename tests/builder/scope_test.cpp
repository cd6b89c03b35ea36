// Tests names, shared weights, layers used in several places, and the errors for an author's mistakes.
#include "builder/scope.h"

#include "passes/training/autodiff.h"
#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

TEST(Scopes, NamesAreThoseOfAStateDict) {
  Model model;
  const Scope layer = Scope(model) / "layers" / 0;
  EXPECT_EQ(layer.path(), "layers.0");
  const nn::Linear q(layer / "self_attn" / "q_proj", 4, 4, {.bias = false});
  EXPECT_EQ(model.states()[0].name, "layers.0.self_attn.q_proj.weight");
  Scope(model).parameter("top", {2}, init::zeros());
  EXPECT_EQ(model.states()[1].name, "top");
}

TEST(Scopes, NodesAreNamedAfterTheirLayer) {
  Model model;
  const Scope layer = Scope(model) / "layers" / 0;
  const nn::Linear q(layer / "q_proj", 4, 4);
  GraphBuilder g(model, "forward");
  const Value x = g.input("x", DType::f32, {2, 4});
  const Value once = q(x), twice = q(once);
  EXPECT_EQ(once.name(), "layers.0.q_proj.linear");
  EXPECT_NE(twice.name(), once.name());
  EXPECT_EQ(twice.name().rfind("layers.0.q_proj.linear", 0), 0u) << twice.name();
  EXPECT_EQ(relu(twice).name(), "relu") << "a layer's scope ends with the layer";
}

TEST(Scopes, KindsOfStates) {
  Model model;
  const Scope s = Scope(model, 7, DType::bf16) / "layer";
  const Parameter parameter = s.parameter("weight", {2}, init::ones()), buffer = s.buffer("mean", {2}),
                  cache = s.cache("k_cache", {2, 3}, DType::f16), rng = s.rng();
  EXPECT_EQ(parameter.state().type.to_string(), "bf16[2]");
  EXPECT_TRUE(parameter.state().trainable);
  EXPECT_EQ(buffer.state().type.to_string(), "f32[2]");  // statistics stay wide
  EXPECT_FALSE(buffer.state().trainable);
  EXPECT_EQ(cache.state().type.to_string(), "f16[2,3]");
  EXPECT_EQ(cache.state().role, StateRole::kCache);
  EXPECT_TRUE(cache.state().initial.empty_handle());
  EXPECT_EQ(rng.state().name, "rng");
  EXPECT_EQ(rng.state().initial.to_doubles(), (Doubles{7, 0}));
  EXPECT_EQ(Scope(model).rng().index, rng.index);
}

Names names_of(const std::vector<Parameter>& parameters) {
  Names names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name());
  return names;
}

TEST(Scopes, ParametersCanBeWalked) {
  Model model;
  const Scope root(model), layers = root / "layers";
  const nn::Linear one(layers / 1, 3, 2), ten(layers / 10, 2, 2, {.bias = false});
  const nn::BatchNorm1d norm(root / "norm", 2);
  const nn::Linear tied(root / "tied", 2, 2, {.bias = false, .weight = ten.weight});
  EXPECT_EQ(names_of(root.parameters()),
            (Names{"layers.1.weight", "layers.1.bias", "layers.10.weight", "norm.weight", "norm.bias"}));
  EXPECT_EQ(names_of((layers / 1).parameters()), (Names{"layers.1.weight", "layers.1.bias"}))
      << "and not layer 10";
  EXPECT_EQ(names_of(root.buffers()), (Names{"norm.running_mean", "norm.running_var"}));
  EXPECT_TRUE((root / "nothing").parameters().empty());
  Names relative;
  for (const auto& [name, parameter] : layers.named_parameters())
    relative.push_back(name + " " + parameter.type().to_string());
  EXPECT_EQ(relative, (Names{"1.weight f32[2,3]", "1.bias f32[2]", "10.weight f32[2,2]"}));
  GraphBuilder g(model, "forward");
  EXPECT_EQ(root.parameters()[0].in(g.graph()).shape().to_string(), "[2,3]");
  for (const Parameter& parameter : (layers / 1).parameters()) parameter.set_trainable(false);
  EXPECT_FALSE(one.weight.state().trainable);
  EXPECT_TRUE(ten.weight.state().trainable);
}

TEST(Scopes, MistakesAreNamed) {
  Model model;
  const Scope s(model);
  const nn::Linear fc(s / "fc", 4, 3);
  expect_error([&] { nn::Linear(s / "fc", 4, 3); }, {"already", "fc.weight"});
  expect_error([&] { s.parameter("w", {symbol("n"), 2}, init::zeros()); }, {"'w'", "n"});
  expect_error([&] { nn::Linear(s / "less", -4, 3); }, {"'less.weight'", "[3,-4]", "negative"});
  expect_error([&] { nn::Linear(s / "head", 3, 4, {.weight = fc.weight}); },
               {"head", "fc.weight", "[3,4]", "[4,3]"});
  GraphBuilder g(model, "forward");
  const Value x = g.input("x", DType::f32, {2, 5});
  expect_error([&] { fc(x); }, {"fc.linear", "5", "4"});
  expect_error([&] { g.input("x", DType::f32, {2}); }, {"forward", "'x'"});
  expect_error([&] { g.state("nothing"); }, {"'nothing'"});
  expect_error([&] { GraphBuilder(model, "forward"); }, {"already", "'forward'"});
  g.output("y", x);
  expect_error([&] { g.output("y", x); }, {"forward", "'y'"});
  g.update(fc.bias, fc.bias.in(g.graph()));
  expect_error([&] { g.update(fc.bias, fc.bias.in(g.graph())); }, {"fc.bias", "twice"});
  expect_error([&] { g.update(fc.weight, x); }, {"fc.weight", "f32[3,4]", "f32[2,5]"});
}

// A layer belongs to one model. In another model its indices would refer to other states.
TEST(Scopes, ALayerOfAnotherModelIsRefused) {
  Model ours, theirs;
  const nn::Linear fc(Scope(ours) / "fc", 4, 3);
  GraphBuilder g(theirs, "forward");
  const Value x = g.input("x", DType::f32, {2, 4});
  expect_error([&] { fc(x); }, {"'fc.", "another model"});
  expect_error([&] { nn::Linear(Scope(theirs) / "head", 4, 3, {.weight = fc.weight}); },
               {"head", "fc.weight", "another model"});
}

TEST(Scopes, ValuesOfAnotherGraphAreRefused) {
  Model model;
  GraphBuilder a(model, "a"), b(model, "b");
  const Value x = a.input("x", DType::f32, {2}), y = b.input("y", DType::f32, {2});
  expect_error([&] { x + y; }, {"another graph"});
  expect_error([&] { b.output("x", x); }, {"'x'", "another graph"});
  expect_error([&] { b.output("none", Value{}); }, {"'none'", "empty"});
  const Parameter p = Scope(model).buffer("p", {2});
  expect_error([&] { b.update(p, x); }, {"'p'", "another graph"});
}

// Both uses of a tied weight add to one gradient. It is compared with central differences.
TEST(Sharing, TheGradientOfATiedEmbeddingIsTheSumOverItsUses) {
  Model model;
  const Scope s(model, 4);
  const nn::Embedding embed(s / "embed", 5, 3);
  const nn::Linear head(s / "head", 3, 5, {.bias = false, .weight = embed.weight});
  ASSERT_EQ(model.states().size(), 1u);
  EXPECT_EQ(head.weight.index, embed.weight.index);
  const auto loss_of = [&](Value ids, Value targets) { return cross_entropy(head(embed(ids)), targets); };
  const Tensor ids = Tensor::of<int64_t>({4}, {0, 3, 3, 1}), targets = Tensor::of<int64_t>({4}, {2, 3, 0, 4});
  const LayerRun run =
      run_outputs(model, {ids, targets}, [&](const auto& v) -> std::vector<std::pair<std::string, Value>> {
        const Value loss = loss_of(v[0], v[1]);
        return {{"loss", loss},
                {"d", passes::gradients(*v[0].graph, loss, {embed.weight.in(*v[0].graph)})[0]}};
      });
  const Doubles gradient = run.y("d"), start = state_of(model, "embed.weight");
  Session session(std::make_shared<Model>(model));
  const auto loss_at = [&](const Doubles& weight) {
    session.set_state("embed.weight", tensor({5, 3}, weight));
    return session.run("run0", {{"x0", ids}, {"x1", targets}}).at("loss").item<double>();
  };
  for (size_t i = 0; i < start.size(); ++i) {
    Doubles up = start, down = start;
    up[i] += 1e-2, down[i] -= 1e-2;
    EXPECT_NEAR(gradient[i], (loss_at(up) - loss_at(down)) / 2e-2, 3e-4)
        << i;  // f32 losses over a step of 0.02
  }
}

// Shares in the other direction: an Embedding takes the weight of the head.
TEST(Sharing, AnEmbeddingTakesAWeight) {
  Model model;
  const Scope s(model, 4);
  const nn::Linear head(s / "head", 3, 5, {.bias = false});
  const nn::Embedding embed(s / "embed", 5, 3, {.weight = head.weight});
  ASSERT_EQ(model.states().size(), 1u);
  EXPECT_EQ(embed.weight.name(), "head.weight");
  const Tensor ids = Tensor::of<int64_t>({2}, {4, 0});
  const Doubles weight = state_of(model, "head.weight");
  EXPECT_EQ(run_layer(model, {ids}, [&](const auto& v) { return embed(v[0]); }).y(),
            (Doubles{weight[12], weight[13], weight[14], weight[0], weight[1], weight[2]}));
  expect_error([&] { nn::Embedding(s / "wide", 5, 4, {.weight = head.weight}); },
               {"'wide'", "head.weight", "[5,3]", "[5,4]"});
  Model other;
  expect_error([&] { nn::Embedding(Scope(other) / "theirs", 5, 3, {.weight = head.weight}); },
               {"'theirs'", "another model"});
  const nn::Embedding filled(s / "filled", 2, 2, {.padding_idx = 0, .init = init::constant(3)});
  EXPECT_EQ(state_of(model, "filled.weight"), (Doubles{0, 0, 3, 3}));
}

TEST(Sharing, ALayerUsedTwiceHasOneSetOfParameters) {
  Model model;
  const nn::Linear fc(Scope(model) / "fc", 3, 3);
  EXPECT_EQ(model.states().size(), 2u);
  const Tensor x = wave_tensor({2, 3}, 0.1);
  const Doubles once = run_layer(model, {x}, [&](const auto& v) { return fc(v[0]); }).y();
  const Doubles twice = run_layer(model, {x}, [&](const auto& v) { return fc(fc(v[0])); }).y();
  EXPECT_EQ(run_layer(model, {tensor({2, 3}, once)}, [&](const auto& v) { return fc(v[0]); }).y(), twice);
}

// Another entry point reads the update made by one entry point.
TEST(Sharing, TwoEntryPointsShareStates) {
  auto model = std::make_shared<Model>();
  const nn::BatchNorm1d norm(Scope(*model) / "bn", 2);
  for (const auto& [entry, mode] : {std::pair{"train", Mode::kTrain}, std::pair{"eval", Mode::kEval}}) {
    GraphBuilder g(*model, entry, mode);
    g.output("y", norm(g.input("x", DType::f32, {symbol("batch"), 2})));
  }
  EXPECT_EQ(model->states().size(), 4u);
  Session session(model);
  const Tensor x = tensor({2, 2}, {1, 10, 3, 30});
  for (int i = 0; i < 200; ++i) session.run("train", {{"x", x}});
  expect_near(session.state("bn.running_mean").to_doubles(), {2, 20});
  expect_near(session.state("bn.running_var").to_doubles(), {2, 200});
  const double far = 10 / std::sqrt(200 + 1e-5), near = 1 / std::sqrt(2 + 1e-5);
  expect_near(session.run("eval", {{"x", x}}).at("y").to_doubles(), {-near, -far, near, far}, 1e-5);
}

}  // namespace
}  // namespace genesis
