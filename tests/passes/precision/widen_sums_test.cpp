// Tests which sums of 16-bit values are kept in f32.
#include "passes/precision/passes.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

const std::string kStates = R"(
state @out: bf16[8,8] parameter trainable
state @down: bf16[8,8] parameter trainable
state @norm: bf16[8] parameter trainable
)";

std::string widened(const std::string& inputs, const std::string& body, bool adds_in_f32 = true) {
  Target target;
  target.adds_in_f32 = adds_in_f32;
  return text_after(kStates + entry(inputs, body), widen_sums, {.target = &target});
}

// Returns the entry point after its states, unchanged.
std::string unchanged(const std::string& inputs, const std::string& body) {
  return normal_text(kStates + entry(inputs, body));
}

constexpr const char* kTwoLayers = R"(
  %a = linear(x, @out)
  %first = add(x, %a)
  %n1 = rms_norm(%first, @norm) {has_weight=true}
  %b = linear(%n1, @down)
  %second = add(%first, %b)
  %n2 = layer_norm(%second, @norm) {has_weight=true}
  return y = %n2
)";

TEST(WidenSums, KeepsTheResidualStreamInF32) {
  EXPECT_EQ(widened("x: bf16[2,8]", kTwoLayers), R"(entry f(x: bf16[2,8]) {
  %cast = cast(x) : f32[2,8]
  %linear = linear(x, @out) {wide=true} : f32[2,8]
  %add = add(%cast, %linear) : f32[2,8]
  %rms_norm = rms_norm(%add, @norm) {has_weight=true} : f32[2,8]
  %cast_1 = cast(%rms_norm) {dtype=bf16} : bf16[2,8]
  %linear_1 = linear(%cast_1, @down) {wide=true} : f32[2,8]
  %add_1 = add(%add, %linear_1) : f32[2,8]
  %layer_norm = layer_norm(%add_1, @norm) {has_weight=true} : f32[2,8]
  %cast_2 = cast(%layer_norm) {dtype=bf16} : bf16[2,8]
  return y = %cast_2
}
)");
}

TEST(WidenSums, LeavesOtherTargetsAlone) {
  EXPECT_EQ(widened("x: bf16[2,8]", kTwoLayers, false), unchanged("x: bf16[2,8]", kTwoLayers));
}

TEST(WidenSums, LeavesF32Alone) {
  const std::string body = "%s = add(x, z)\n %n = rms_norm(%s)\n return y = %n";
  EXPECT_EQ(widened("x: f32[2,8], z: f32[2,8]", body), unchanged("x: f32[2,8], z: f32[2,8]", body));
}

// A sum with another reader would have to be rounded for it, so that readers would see different values.
TEST(WidenSums, LeavesSumsThatOthersRead) {
  for (const char* reader :
       {"return s = %s", "%o = mul(%s, %s)\n return s = %o",
        "%o = rms_norm(x, %s) {has_weight=true}\n return s = %o", "%o = add(%s, %n)\n return s = %o"}) {
    SCOPED_TRACE(reader);
    const std::string body = std::string("%s = add(x, z)\n %n = rms_norm(%s)\n return y = %n\n") + reader;
    const std::string inputs = "x: bf16[8], z: bf16[8]";
    EXPECT_EQ(widened(inputs, body), unchanged(inputs, body));
  }
}

TEST(WidenSums, TakesBroadcastTerms) {
  const std::string text =
      widened("x: bf16[2,8], z: bf16[8]", "%s = add(x, z)\n %n = rms_norm(%s)\n return y = %n");
  EXPECT_NE(text.find("%add = add(%cast, %cast_1) : f32[2,8]"), std::string::npos) << text;
}

// A product with an activation, or with another reader, keeps its 16 bits.
TEST(WidenSums, WidensOnlyTheProductsThatOnlyItReads) {
  const std::string body = R"(
  %a = linear(x, @out) {activation="relu"}
  %b = linear(x, @down)
  %s = add(%a, %b)
  %n = rms_norm(%s, @norm) {has_weight=true}
  return y = %n
  return b = %b
)";
  const std::string text = widened("x: bf16[2,8]", body);
  EXPECT_EQ(text.find("wide=true"), std::string::npos) << text;
  EXPECT_NE(text.find("rms_norm(%add, @norm) {has_weight=true} : f32[2,8]"), std::string::npos) << text;
}

}  // namespace
}  // namespace genesis::passes
