#include "passes/fusion/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

std::string fused(const std::string& inputs, const std::string& body) {
  const Target target;
  return text_after(entry(inputs, body), fuse_norm_linear, {.target = &target});
}

constexpr const char* kInputs = "x: f32[1,2,3], g: f32[3], a: f32[4,3], b: f32[4,3], c: f32[4], d: f32[4]";
constexpr const char* kNorm = "%n = rms_norm(x, g) {eps=0.5, has_weight=true}\n";

void expect_fused(const std::string& before, const std::string& after) {
  EXPECT_EQ(fused(kInputs, kNorm + before), normal_text(entry(kInputs, after)));
}

TEST(FuseNormLinear, EveryKindOfLayer) {
  expect_fused("%y = linear(%n, a, c) {activation=\"relu\"}\nreturn y = %y\n",
               "%linear = linear(x, g, a, c) {activation=\"relu\", prologue=\"rms_norm\", eps=0.5}\n"
               "return y = %linear\n");
  expect_fused("%y = linear(%n, a, b, c, d) {weights=2}\nreturn y = %y\nreturn z = %y:1\n",
               "%linear = linear(x, g, a, b, c, d) {weights=2, prologue=\"rms_norm\", eps=0.5}\n"
               "return y = %linear\nreturn z = %linear:1\n");
  expect_fused(
      "%y = linear(%n, a, b) {weights=2, epilogue=\"swiglu\"}\nreturn y = %y\n",
      "%linear = linear(x, g, a, b) {weights=2, prologue=\"rms_norm\", eps=0.5, epilogue=\"swiglu\"}\n"
      "return y = %linear\n");
}

TEST(FuseNormLinear, OnlyWhereTheDeviceDoesBothAtOnce) {
  const Target target{.is_native = never_native};
  const std::string before = entry(kInputs, std::string(kNorm) + "%y = linear(%n, a)\nreturn y = %y\n");
  EXPECT_EQ(text_after(before, fuse_norm_linear, {.target = &target}), normal_text(before));
}

TEST(FuseNormLinear, AReshapeOfWholeRowsGoesBefore) {
  const std::string text = fused(
      kInputs, std::string(kNorm) + "%m = reshape(%n) {shape=[2,3]}\n%y = linear(%m, a)\nreturn y = %y\n");
  EXPECT_NE(text.find("= reshape(x) {shape=[2,3]}"), std::string::npos) << text;
  EXPECT_NE(text.find("linear(%"), std::string::npos) << text;
  EXPECT_EQ(text.find("rms_norm("), std::string::npos) << text;
}

TEST(FuseNormLinear, LeavesWhatDiffers) {
  const auto untouched = [](const std::string& body) {
    EXPECT_EQ(fused(kInputs, body), normal_text(entry(kInputs, body)));
  };
  const std::string layer = "%y = linear(%n, a)\nreturn y = %y\n";
  untouched(std::string(kNorm) + layer + "return n = %n\n");
  untouched("%n = rms_norm(x)\n" + layer);
  untouched("%n = rms_norm(x, x) {num_axes=3, has_weight=true}\n" + layer);
}

}  // namespace
}  // namespace genesis::passes
