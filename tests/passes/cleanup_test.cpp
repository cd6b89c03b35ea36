// Tests dead code elimination, common subexpression elimination and constant folding.
#include "passes/simplify/passes.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

TEST(EliminateDeadCode, KeepsWhatOutputsAndUpdatesNeed) {
  const char* text = R"(
state @w: f32[3] parameter
entry f(x: f32[3]) {
  %a = neg(x)
  %dead = exp(%a)
  %dead_too = log(%dead)
  %b = add(@w, x)
  return y = %a
  update @w = %b
}
)";
  EXPECT_EQ(text_after(text, eliminate_dead_code), R"(entry f(x: f32[3]) {
  %a = neg(x) : f32[3]
  %b = add(@w, x) : f32[3]
  return y = %a
  update @w = %b
}
)");
}

TEST(EliminateCommonSubexpressions, MergesEqualNodesAndTheirReaders) {
  const char* text = R"(
entry f(x: f32[3], z: f32[3]) {
  %a = add(x, z)
  %b = add(z, x)
  %c = sub(x, z)
  %d = sub(z, x)
  %e = exp(%a)
  %f = exp(%b)
  %g = sum(%e) {axes=(0)}
  %h = sum(%f) {axes=(0)}
  %i = sum(%f) {axes=(0), keep_dims=true}
  return p = %g
  return q = %h
  return r = %i
  return s = %c
  return t = %d
}
)";
  EXPECT_EQ(text_after(text, eliminate_common_subexpressions), R"(entry f(x: f32[3], z: f32[3]) {
  %a = add(x, z) : f32[3]
  %c = sub(x, z) : f32[3]
  %d = sub(z, x) : f32[3]
  %e = exp(%a) : f32[3]
  %g = sum(%e) {axes=(0)} : f32[]
  %i = sum(%e) {axes=(0), keep_dims=true} : f32[1]
  return p = %g
  return q = %g
  return r = %i
  return s = %c
  return t = %d
}
)");
}

// Evaluates two ops: `add` of two f32 vectors of the same size, and `full` of f32.
std::optional<std::vector<Tensor>> evaluate_add(const KernelQuery& query, std::span<const Tensor> inputs) {
  if (query.op.name() == "full") {
    const auto value = std::get<double>(*query.attributes.find("value"));
    const auto count = static_cast<size_t>(query.outputs[0].numel());
    return {{Tensor::of<float>(query.outputs[0].shape.sizes(), std::vector<float>(count, float(value)))}};
  }
  if (query.op.name() != "add") return std::nullopt;
  std::vector<float> sums;
  for (int64_t i = 0; i < query.outputs[0].numel(); ++i)
    sums.push_back(inputs[0].as<float>()[size_t(i)] + inputs[1].as<float>()[size_t(i)]);
  return {{Tensor::of<float>(query.outputs[0].shape.sizes(), sums)}};
}

constexpr const char* kFoldable = R"(
tensor #a: f32[2] = (1.0, 2.0)
tensor #b: f32[2] = (10.0, 20.0)
entry f(x: f32[2]) {
  %ones = full() {shape=[2], value=1.0}
  %c = add(#a, #b)
  %d = add(%c, %ones)
  %e = neg(%d)
  %y = add(x, %e)
  return y = %y
  return ones = %ones
}
)";

TEST(FoldConstants, ComputesWhatIsKnownAndKeepsOnlyWhatIsRead) {
  Target target;
  target.evaluate = evaluate_add;
  PassContext context;
  context.target = &target;
  const auto model = parse_text(kFoldable);
  const Graph folded = fold_constants(model->entry("f"), context);
  verify(folded);
  EXPECT_EQ(to_text(folded), R"(entry f(x: f32[2]) {
  %ones = full() {shape=[2], value=1.0} : f32[2]
  %e = neg(#folded.d) : f32[2]
  %y = add(x, %e) : f32[2]
  return y = %y
  return ones = %ones
}
)");
  ASSERT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->tensors()[2].tensor.to_doubles(), (std::vector<double>{12, 23}));
}

TEST(FoldConstants, LeavesLargeResults) {
  Target target;
  target.evaluate = evaluate_add;
  PassContext context;
  context.target = &target;
  context.max_folded_bytes = 4;
  EXPECT_EQ(text_after(kFoldable, fold_constants, context), normal_text(kFoldable));
  EXPECT_EQ(text_after(kFoldable, fold_constants), normal_text(kFoldable))
      << "without a target nothing is known";
}

}  // namespace
}  // namespace genesis::passes
