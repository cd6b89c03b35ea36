#include "passes/core/bind.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kText = R"(
state @w: f32[3] parameter
entry f(x: f32[batch,seq,3], y: f32[batch]) {
  %a = mul(x, @w)
  %b = reshape(%a) {shape=[batch*seq,3]}
  %c = sum(%b) {axes=(0)}
  return y = %c
}
)";

TEST(Bind, ReplacesSymbolsInInputsAndAttributes) {
  const auto model = parse_text(kText);
  const Graph bound = bind(model->entry("f"), {{"batch", 2}, {"seq", 5}});
  verify(bound);
  EXPECT_EQ(to_text(bound), R"(entry f(x: f32[2,5,3], y: f32[2]) {
  %a = mul(x, @w) : f32[2,5,3]
  %b = reshape(%a) {shape=[10,3]} : f32[10,3]
  %c = sum(%b) {axes=(0)} : f32[3]
  return y = %c
}
)");
}

TEST(Bind, KeepsSymbolsThatAreNotNamed) {
  const auto model = parse_text(kText);
  const Graph bound = bind(model->entry("f"), {{"seq", 4}});
  EXPECT_EQ(bound.type(bound.nodes()[1].outputs[0]).to_string(), "f32[4*batch,3]");
  EXPECT_EQ(symbols_of(bound), std::vector<std::string>{"batch"});
  EXPECT_EQ(symbols_of(model->entry("f")), (std::vector<std::string>{"batch", "seq"}));
}

TEST(Bind, RefusesNegativeSizes) {
  const auto model = parse_text(kText);
  EXPECT_THROW(bind(model->entry("f"), {{"batch", -1}, {"seq", 2}}), Error);
}

TEST(SolveSymbol, SolvesTheFirstDegree) {
  const auto solve = [](const char* dim, int64_t size) {
    const auto solved = solve_symbol(Dim::parse(dim), size);
    return solved ? solved->symbol + "=" + std::to_string(solved->size) : "";
  };
  EXPECT_EQ(solve("batch", 7), "batch=7");
  EXPECT_EQ(solve("4*batch", 8), "batch=2");
  EXPECT_EQ(solve("4*batch", 6), "");
  EXPECT_EQ(solve("seq+1", 17), "seq=16");
  EXPECT_EQ(solve("seq+1", 0), "");
  EXPECT_EQ(solve("3", 3), "");
  EXPECT_EQ(solve("batch*batch", 4), "");
  EXPECT_EQ(solve("batch*batch+batch", 2), "");
  EXPECT_EQ(solve("batch*seq", 4), "");
}

}  // namespace
}  // namespace genesis::passes
