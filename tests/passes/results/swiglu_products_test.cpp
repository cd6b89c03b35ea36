// Tests that fuse_swiglu_products keeps every bit and the memory use on a CPU, where its ops are decomposed. On a
// GPU, if there is one, they are kernels of their own.
#include <cmath>

#include "executor/session.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

using testing::why_no_cuda;

// The sizes are just large enough for the pass. The result is folded, so that it is small and depends on every
// element.
constexpr const char* kBoth = R"(
entry f(x: f32[4096,24], w: f32[4096,24], dy: f32[4096,24], v: f32[24,2048]) {
  %xl = cast(x) {dtype=bf16}
  %wl = cast(w) {dtype=bf16}
  %dl = cast(dy) {dtype=bf16}
  %vl = cast(v) {dtype=bf16}
  %l = linear(%xl, %wl)
  %y = swiglu(%l)
  %d = matmul(%dl, %vl)
  %g = swiglu_grad(%l, %d) {with_output=true}
  %ys = sum(%y) {axes=(0)}
  %gs = sum(%g) {axes=(0)}
  %hs = sum(%g:1) {axes=(1)}
  return y = %ys
  return g = %gs
  return h = %hs
}
)";

Tensor waves(int64_t rows, int64_t columns, double step) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i % 100003)));
  return Tensor::of<float>({rows, columns}, values);
}

std::shared_ptr<Model> fused() {
  std::shared_ptr<Model> model = parse_text(kBoth);
  const Target target;
  model->replace_entry(fuse_swiglu_products(std::as_const(*model).entry("f"), {.target = &target}));
  return model;
}

NamedTensors results(std::shared_ptr<Model> model, const std::string& device) {
  Session session(std::move(model), {.device = device, .optimize = false});
  return session.run("f", {{"x", waves(4096, 24, 0.7)},
                           {"w", waves(4096, 24, 0.3)},
                           {"dy", waves(4096, 24, 0.9)},
                           {"v", waves(24, 2048, 0.2)}});
}

TEST(FuseSwigluProducts, KeepsResults) {
  const auto model = fused();
  std::map<std::string_view, int> count;
  for (const Node& node : std::as_const(*model).entry("f").nodes()) ++count[node.op->name()];
  ASSERT_EQ(count["linear"] + count["matmul"], 2);
  ASSERT_EQ(count["swiglu"] + count["swiglu_grad"], 0);
  const NamedTensors plain = results(parse_text(kBoth), "cpu"), got = results(model, "cpu");
  for (const auto& [name, tensor] : plain) EXPECT_EQ(got.at(name).to_doubles(), tensor.to_doubles()) << name;
}

// A GPU may sum products in another order, which changes at most single elements in bf16.
TEST(FuseSwigluProducts, KeepsResultsOnAGpu) {
  if (!why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  const NamedTensors plain = results(parse_text(kBoth), "cuda"), got = results(fused(), "cuda");
  for (const auto& [name, tensor] : plain) {
    const std::vector<double> a = got.at(name).to_doubles(), b = tensor.to_doubles();
    for (size_t i = 0; i < b.size(); ++i)
      ASSERT_NEAR(a[i], b[i], 0.02 * (1 + std::abs(b[i]))) << name << " " << i;
  }
}

}  // namespace
}  // namespace genesis::passes
