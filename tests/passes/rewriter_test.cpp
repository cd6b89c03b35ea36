#include "passes/core/rewriter.h"

#include "passes/core/analysis.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kText = R"(
state @w: f32[3] parameter trainable
entry f(x: f32[3]) {
  %block.a = mul(x, @w)
  %block.b = neg(%block.a)
  %unused = exp(x)
  %block.c = add(%block.b, %block.a)
  return y = %block.c
  update @w = %block.b
}
)";

TEST(Rewriter, CopiesToTheSameGraph) {
  const auto model = parse_text(kText);
  const Graph& graph = model->entry("f");
  const Graph copy = rewrite(graph, [](Rewriter&, const Node&) { return Replacement(); });
  EXPECT_EQ(to_text(copy), to_text(graph));
  EXPECT_TRUE(same_graph(copy, graph));
  EXPECT_TRUE(copy.shares_with(graph));
}

TEST(Rewriter, AGraphThatGrowsLeavesTheOneThatSharesItsContents) {
  const auto model = parse_text(kText);
  const Graph& graph = model->entry("f");
  const std::string before = to_text(graph);
  Graph grown = graph.share();
  grown.add_output("z", exp(grown.input("x")));
  EXPECT_EQ(to_text(graph), before);
  EXPECT_NE(to_text(grown), before);
  EXPECT_FALSE(grown.shares_with(graph));
  verify(grown);
}

TEST(Rewriter, ReplacesKeepsNamesAndOriginsAndDropsWhatDied) {
  const auto model = parse_text(kText);
  const auto abs_for_neg = [](Rewriter& rewriter, const Node& node) {
    if (node.op->name() != "neg") return Replacement();
    return Replacement({abs(square(rewriter.map(node.inputs[0])))});
  };
  const Graph result = rewrite(model->entry("f"), abs_for_neg);
  verify(result);
  EXPECT_EQ(to_text(result, {.origins = true}), R"(entry f(x: f32[3]) {
  %block.a = mul(x, @w) : f32[3]
  %block.square = square(%block.a) : f32[3]  // block.b
  %block.abs = abs(%block.square) : f32[3]  // block.b
  %block.c = add(%block.abs, %block.a) : f32[3]
  return y = %block.c
  update @w = %block.abs
}
)");
  EXPECT_FALSE(same_graph(result, model->entry("f")));
  EXPECT_EQ(result.nodes()[2].authored_name(), "block.b");
}

TEST(Rewriter, ANodeWhoseNameWasTakenKeepsItAsItsOrigin) {
  const auto model =
      parse_text("entry f(x: f32[3]) {\n %a = neg(x)\n %square = neg(%a)\n return y = %square\n}");
  const Graph result = rewrite(model->entry("f"), [](Rewriter& rewriter, const Node& node) {
    if (node.name != "a") return Replacement();
    return Replacement({square(rewriter.map(node.inputs[0]))});
  });
  EXPECT_EQ(result.nodes()[1].name, "square_1");
  EXPECT_EQ(result.nodes()[1].authored_name(), "square");
}

TEST(Analysis, CountsLiveUses) {
  const auto model = parse_text(kText);
  const Graph& graph = model->entry("f");
  const Uses uses(graph);
  const ValueId x = graph.inputs()[0];
  EXPECT_EQ(uses.count(x), 1);  // %unused does not count
  EXPECT_EQ(uses.count(graph.nodes()[0].outputs[0]), 2);
  EXPECT_EQ(uses.count(graph.nodes()[1].outputs[0]), 2);  // a node and an update
  EXPECT_TRUE(uses.single(graph.nodes()[3].outputs[0]));
  EXPECT_EQ(uses.readers(graph.nodes()[0].outputs[0]).size(), 2u);
}

}  // namespace
}  // namespace genesis::passes
