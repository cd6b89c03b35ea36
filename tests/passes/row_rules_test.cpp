// Tests how nodes work on a shard of the tokens.
#include "passes/distribution/sharding/row_rules.h"

#include <gtest/gtest.h>

#include "builder/graph_builder.h"
#include "passes/core/match.h"
#include "schema/graph/model.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

constexpr FactorShard kSecondOfFour{.ranks = 4, .place = 1};

// Returns the rule of the last node that `make` adds to x, of which a shard of the rows is present.
template <class Make>
std::optional<RowWise> rule_of(Shape shape, const Make& make, FactorShard shard = kSecondOfFour) {
  Model model;
  Graph& graph = model.add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, std::move(shape)});
  make(graph, x);
  const Node& node = graph.nodes().back();
  std::vector<int> dims;
  for (const ValueId input : node.inputs) dims.push_back(input == x.id ? x.rank() - 1 : kNoRows);
  return row_wise(graph, node, dims, shard);
}

Value input(Graph& graph, Shape shape) { return graph.add_input("y", {DType::f32, std::move(shape)}); }

TEST(RowRules, APartHasOneRunOfTheTokens) {
  EXPECT_EQ(shape_of_rows({8, 3, 16}, 2, 4).to_string(), "[2,3,16]");
  EXPECT_EQ(shape_of_rows({1, 12, 16}, 2, 4).to_string(), "[1,3,16]");
  EXPECT_EQ(shape_of_rows({6, 2, 16}, 2, 4).to_string(), "[3,16]");
  EXPECT_EQ(shape_of_rows({12, 16}, 1, 4).to_string(), "[3,16]");
  EXPECT_TRUE(divides_rows({6, 2, 16}, 2, 4));
  EXPECT_FALSE(divides_rows({5, 3, 16}, 2, 4));
  EXPECT_FALSE(divides_rows({16}, 0, 4));
  EXPECT_FALSE(divides_rows({Dim::symbol("batch"), 4, 16}, 2, 4));
}

TEST(RowRules, ElementsOfTheSameRowsOrOfAll) {
  const auto sum = [](Shape shape) {
    return [shape](Graph& graph, Value x) { static_cast<void>(x + input(graph, shape)); };
  };
  const auto operands = [&](Shape x, Shape y) {
    const auto rule = rule_of(std::move(x), sum(std::move(y)));
    return rule ? rule->operands : std::vector<int>{};
  };
  EXPECT_EQ(operands({8, 3, 16}, {8, 3, 16}), (std::vector{2, 2}));
  EXPECT_EQ(operands({8, 3, 16}, {16}), (std::vector{2, 0}));
  EXPECT_EQ(operands({8, 3, 16}, {}), (std::vector{2, 0}));
  EXPECT_EQ(operands({8, 3, 16}, {3, 16}), (std::vector{2, 0}));  // the same for the whole batch
  EXPECT_EQ(operands({8, 3, 16}, {8, 3, 1}), (std::vector{2, 2}));
  EXPECT_EQ(operands({8, 3, 16}, {8, 1, 16}), std::vector<int>{});  // different for each rank
  EXPECT_EQ(operands({6, 2, 16}, {2, 16}), std::vector<int>{});     // a rank's rows begin inside a text
  EXPECT_EQ(operands({6, 2, 16}, {6, 2, 1}), (std::vector{2, 2}));
  EXPECT_EQ(operands({1, 12, 16}, {12, 16}), (std::vector{2, 1}));
}

TEST(RowRules, NormsGiveSumsForTheirWeights) {
  const auto gradient = rule_of({6, 2, 16}, [](Graph& graph, Value x) {
    const Value dy = graph.add_input("dy", {DType::f32, {6, 2, 16}}),
                weight = graph.add_input("w", {DType::f32, {16}});
    emit_node(op_def<ops::RmsNormGrad>(),
              to_attributes(ops::RmsNormGrad{.has_weight = true, .want_weight = true}), {x, dy, weight});
  });
  ASSERT_TRUE(gradient);
  EXPECT_EQ(gradient->operands, (std::vector{2, 2, 0}));
  EXPECT_EQ(gradient->results, (std::vector{2, kNoRows}));
  // The statistics are over the sharded axis.
  EXPECT_FALSE(rule_of({6, 2, 16}, [](Graph&, Value x) { layer_norm(x, {}, {}, 1e-5, 2); }));
}

TEST(RowRules, SumsAreOverAllRowsOrInsideOfEach) {
  const auto of = [](Axes axes, Shape shape = {8, 3, 16}) {
    return rule_of(std::move(shape), [&](Graph&, Value x) { sum(x, axes); });
  };
  EXPECT_EQ(of({0, 1})->results, std::vector{kNoRows});
  EXPECT_EQ(of({2})->results, std::vector{2});
  EXPECT_FALSE(of({0}));
  EXPECT_FALSE(of({0, 1, 2}));
  // A file may contain negative axes.
  const auto of_last = rule_of({8, 3, 16}, [](Graph&, Value x) {
    ops::Sum last;
    last.axes = {-1};
    emit_node(*find_op("sum"), to_attributes(last), {x});
  });
  EXPECT_EQ(of_last->results, std::vector{2});
  EXPECT_EQ(from_attributes<ops::Sum>(of({0, 1}, {6, 2, 16})->attributes).axes, (Axes{0}));
  EXPECT_EQ(from_attributes<ops::Sum>(of({2}, {6, 2, 16})->attributes).axes, (Axes{1}));
}

TEST(RowRules, ReshapesKeepRowsTogether) {
  const auto to = [](Shape shape) {
    const auto rule = rule_of({6, 2, 16}, [&](Graph&, Value x) { reshape(x, shape); });
    return rule ? from_attributes<ops::Reshape>(rule->attributes).shape.to_string() : "none";
  };
  EXPECT_EQ(to({12, 16}), "[3,16]");
  EXPECT_EQ(to({4, 3, 4, 4}), "[1,3,4,4]");
  EXPECT_EQ(to({24, 8}), "none");  // halves of rows
  EXPECT_EQ(to({192}), "none");
}

TEST(RowRules, DropoutKnowsWhereItsPartBegins) {
  const auto drop = [](Shape shape) {
    return rule_of(std::move(shape), [](Graph& graph, Value x) {
      dropout(graph.add_input("rng", {DType::i64, {2}}), x, 0.5);
    });
  };
  EXPECT_EQ(from_attributes<ops::Dropout>(drop({8, 3, 16})->attributes).first, 96);
  EXPECT_FALSE(drop({4, 3, 2}));  // random numbers are drawn in groups of four
}

TEST(RowRules, OtherOpsWantAllRows) {
  EXPECT_FALSE(rule_of({8, 3, 16}, [](Graph&, Value x) { softmax(x, 1); }));
}

}  // namespace
}  // namespace genesis::passes
