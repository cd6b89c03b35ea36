// Tests patterns over nodes: what they match, and what they do not.
#include "passes/core/match.h"

#include "schema/graph/model.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/slice.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

class Match : public ::testing::Test {
 protected:
  const std::unique_ptr<Model> model_ = parse_text(entry("x: f32[4], y: bf16[2]",
                                                         "%c = cast(y) {dtype=f32}\n"
                                                         "%s = split(x) {axis=0, sizes=(2, 2)}\n"
                                                         "%t = add(%s:1, %c)\n"
                                                         "%g = gelu(%t) {approximate=\"tanh\"}\n"
                                                         "return t = %t\n return g = %g"));
  const Graph& graph_ = *model_->entries()[0];
  const Uses uses_{graph_};
  const Node &cast_ = graph_.nodes()[0], &split_ = graph_.nodes()[1], &add_ = graph_.nodes()[2],
             &gelu_ = graph_.nodes()[3];
};

TEST_F(Match, OpsByTheirTypes) {
  EXPECT_TRUE(is<ops::Cast>(cast_));
  EXPECT_FALSE((is<ops::Cast, ops::Mul>(add_)));
  EXPECT_TRUE((is<ops::Cast, ops::Add>(*add_.op)));
  EXPECT_EQ(&op_def<ops::Add>(), add_.op);
}

TEST_F(Match, ANodeComesWithItsAttributes) {
  const auto gelu = match<ops::Gelu>(gelu_);
  ASSERT_TRUE(gelu);
  EXPECT_EQ(gelu.node, &gelu_);
  EXPECT_EQ(gelu->approximate, GeluKind::kTanh);
  EXPECT_EQ(gelu.input(0), add_.outputs[0]);
  EXPECT_EQ(gelu.num_inputs(), 1u);
  EXPECT_FALSE(match<ops::Gelu>(add_));
}

TEST_F(Match, WhatMakesAValueAsItsFirstResult) {
  EXPECT_EQ(match<ops::Cast>(graph_, cast_.outputs[0]).node, &cast_);
  EXPECT_EQ(match<ops::Split>(graph_, split_.outputs[0]).node, &split_);
  EXPECT_FALSE(match<ops::Split>(graph_, split_.outputs[1]));
  EXPECT_FALSE(match<ops::Add>(graph_, cast_.outputs[0]));
  EXPECT_FALSE(match<ops::Cast>(graph_, graph_.inputs()[0]));
}

TEST_F(Match, WhatNobodyElseReads) {
  EXPECT_TRUE(match_sole<ops::Cast>(graph_, uses_, cast_.outputs[0]));
  EXPECT_FALSE(match_sole<ops::Add>(graph_, uses_, add_.outputs[0]));  // an output and gelu's input
}

TEST_F(Match, OperandsInEitherOrder) {
  const ValueId part = split_.outputs[1], wide = cast_.outputs[0];
  const std::array<std::pair<ValueId, ValueId>, 2> expected = {{{part, wide}, {wide, part}}};
  EXPECT_EQ(either_way(add_), expected);
}

// Rows of the table and the types agree.
TEST(ElementwiseOps, HaveTypes) {
  EXPECT_EQ(op_def<ops::Where>().info.inputs.max, 3);
  EXPECT_TRUE(op_def<ops::Mul>().info.commutative && op_def<ops::Mul>().info.elementwise);
  EXPECT_EQ(op_def<ops::Exp>().info.precision, Precision::kWide);
}

}  // namespace
}  // namespace genesis::passes
