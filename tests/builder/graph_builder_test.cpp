// Tests what a GraphBuilder creates without operands, as members and as functions.
#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

// Returns the elements of what `build` creates with a GraphBuilder, run with batch = 3.
Doubles created(const std::function<Value(GraphBuilder&)>& build) {
  const auto model = std::make_shared<Model>();
  GraphBuilder g(*model, "forward");
  g.input("x", DType::f32, {symbol("batch")});
  g.output("y", build(g));
  return Session(model).run("forward", {{"x", Tensor::zeros({3})}}).at("y").to_doubles();
}

TEST(GraphBuilderCreates, ConstantsAsMembersAndFunctions) {
  const Dim batch = symbol("batch");
  EXPECT_EQ(created([&](GraphBuilder& g) { return g.zeros({batch}); }), (Doubles{0, 0, 0}));
  EXPECT_EQ(created([&](GraphBuilder& g) { return ones(g, {batch}) + zeros(g, {1}); }), (Doubles{1, 1, 1}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.ones({2}, DType::i32) + full(g, {2}, 3, DType::i32); }),
            (Doubles{4, 4}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.full({2}, 2.5); }), (Doubles{2.5, 2.5}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.eye(2); }), (Doubles{1, 0, 0, 1}));
  EXPECT_EQ(created([](GraphBuilder& g) { return eye(g, 1, DType::i64); }), Doubles{1});
}

TEST(GraphBuilderCreates, RangesWithTheArgumentsOfTorch) {
  const Dim batch = symbol("batch");
  EXPECT_EQ(created([&](GraphBuilder& g) { return arange(g, batch); }), (Doubles{0, 1, 2}));
  EXPECT_EQ(created([&](GraphBuilder& g) { return g.arange(2, batch + 2); }), (Doubles{2, 3, 4}));
  EXPECT_EQ(created([](GraphBuilder& g) { return arange(g, 2, 7, 2); }), (Doubles{2, 4, 6}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.arange(3, -1, -2); }), (Doubles{3, 1}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.arange(3, -2, -2); }), (Doubles{3, 1, -1}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.arange(5, 2); }), Doubles());
  EXPECT_EQ(created([](GraphBuilder& g) { return g.arange(5, 2, 2); }), Doubles());
  EXPECT_EQ(created([](GraphBuilder& g) { return linspace(g, 1, 2, 3); }), (Doubles{1, 1.5, 2}));
  EXPECT_EQ(created([](GraphBuilder& g) { return g.linspace(1, 2, 1); }), Doubles{1});
  expect_error([] { created([](GraphBuilder& g) { return g.arange(0, 4, 0); }); }, {"step 0"});
  expect_error([&] { created([&](GraphBuilder& g) { return g.arange(0, batch, 2); }); }, {"batch", "step 2"});
  expect_error([] { created([](GraphBuilder& g) { return g.linspace(0, 1, 0); }); }, {"0 numbers"});
}

TEST(GraphBuilderCreates, RandomNumbersFromTheModelsState) {
  const Doubles x = created([](GraphBuilder& g) { return g.randn({2, 500}); });
  EXPECT_EQ(x, created([](GraphBuilder& g) { return randn(g, {2, 500}); })) << "one seed, one stream";
  double squares = 0;
  for (double value : x) squares += value * value / 1000;
  EXPECT_NEAR(squares, 1, 0.15);
  for (double value : created([](GraphBuilder& g) { return rand(g, {8}) + g.rand({8}); })) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 2);
  }
  for (double value : created([](GraphBuilder& g) { return randint(g, {50}, -1, 2); }))
    EXPECT_LE(std::abs(value), 1);
  Model model;
  const nn::Dropout drop(Scope(model, 5) / "drop");
  GraphBuilder g(model, "forward");
  EXPECT_EQ(g.rng().state().initial.to_doubles(), (Doubles{5, 0})) << "layers and authors share one state";
}

}  // namespace
}  // namespace genesis
