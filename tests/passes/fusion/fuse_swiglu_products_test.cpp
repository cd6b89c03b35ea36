// Tests what fuse_swiglu_products joins, and what it leaves alone.
#include "passes/fusion/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kInputs =
    "x: bf16[4,1024,64], w: bf16[4096,64], dy: bf16[4,1024,64], v: bf16[64,2048], p: bf16[4,1024,4096]";

std::string fused(const std::string& body, const std::string& inputs = kInputs, bool pays = true) {
  Target target = large_gpu();
  if (!pays) target.is_native = never_native;
  return text_after(entry(inputs, body), fuse_swiglu_products, {.target = &target});
}

void expect_untouched(const std::string& body, const std::string& inputs = kInputs, bool pays = true) {
  EXPECT_EQ(fused(body, inputs, pays), normal_text(entry(inputs, body)));
}

constexpr const char* kForward =
    "%linear = linear(x, w)\n %y = swiglu(%linear)\n return y = %y\n return l = %linear";
constexpr const char* kGradient =
    "%d = matmul(dy, v)\n %g = swiglu_grad(p, %d) {with_output=true}\n return g = %g\n return h = %g:1";

TEST(FuseSwigluProducts, TakeInWhatStandsBeside) {
  EXPECT_EQ(fused(kForward), normal_text(entry(kInputs,
                                               "%linear = linear(x, w) {epilogue=\"with_swiglu\"}\n"
                                               " return y = %linear:1\n"
                                               " return l = %linear")));
  EXPECT_EQ(fused(kGradient),
            normal_text(entry(kInputs,
                              "%matmul = matmul(dy, v, p) {epilogue=\"swiglu_grad\", with_output=true}\n"
                              " return g = %matmul\n"
                              " return h = %matmul:1")));
  EXPECT_EQ(fused("%d = matmul(dy, v)\n %g = swiglu_grad(p, %d)\n return g = %g"),
            normal_text(entry(kInputs,
                              "%matmul = matmul(dy, v, p) {epilogue=\"swiglu_grad\"}\n"
                              " return g = %matmul")));
}

TEST(FuseSwigluProducts, OnlyWhereItPays) {
  expect_untouched(kForward, kInputs, false);
  expect_untouched(kGradient, kInputs, false);
  const std::string small =
      "x: bf16[4,16,64], w: bf16[4096,64], dy: bf16[4,16,64], v: bf16[64,2048], p: bf16[4,16,4096]";
  expect_untouched(kForward, small);
  expect_untouched(kGradient, small);
  const std::string wide =
      "x: f32[4,1024,64], w: f32[4096,64], dy: f32[4,1024,64], v: f32[64,2048], p: f32[4,1024,4096]";
  expect_untouched(kForward, wide);
  expect_untouched(kGradient, wide);
  const std::string odd =
      "x: bf16[4,1024,63], w: bf16[4096,63], dy: bf16[4,1024,63], v: bf16[63,2048], p: bf16[4,1024,4096]";
  expect_untouched(kForward, odd);
  expect_untouched(kGradient, odd);
}

TEST(FuseSwigluProducts, LeaveWhatDiffers) {
  const std::string inputs = std::string(kInputs) + ", b: bf16[4096], r: bf16[4,1024,4096], t: bf16[2048,64]";
  const std::string swiglu = " %y = swiglu(%l)\n return y = %y";
  expect_untouched("%l = linear(x, w, b)\n" + swiglu, inputs);
  expect_untouched("%l = linear(x, w, r) {has_addend=true}\n" + swiglu, inputs);
  expect_untouched("%l = linear(x, w) {activation=\"relu\"}\n" + swiglu, inputs);
  expect_untouched("%l = linear(x, w)\n %y = swiglu(%l, p)\n return y = %y", inputs);
  expect_untouched("%d = matmul(dy, t) {transpose_b=true}\n %g = swiglu_grad(p, %d)\n return g = %g", inputs);
  expect_untouched("%d = matmul(dy, v)\n %g = swiglu_grad(p, %d)\n return g = %g\n return d = %d", inputs);
}

}  // namespace
}  // namespace genesis::passes
