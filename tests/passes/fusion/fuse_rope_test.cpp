// Tests that the rotation and the attention of foreign programs become the ops of the zoo, and that others stay.
#include <limits>

#include "passes/fusion/passes.h"
#include "schema/ops/nn/attention.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kInputs = "x: f32[2,3,5,4], p: i64[1,5,1], f: f32[1,1,2]";

// The rotation as transformers writes it; `half` begins the second half, and `joined` joins the turned halves.
std::string rotation(const std::string& half = "2", const std::string& joined = "%n, %a") {
  return R"(
    %t = cast(p) {dtype=f32}
    %w = mul(%t, f)
    %e = concat(%w, %w) {axis=-1}
    %c = cos(%e)
    %s = sin(%e)
    %c4 = reshape(%c) {shape=[1,1,5,4]}
    %s4 = reshape(%s) {shape=[1,1,5,4]}
    %plain = mul(x, %c4)
    %a = slice(x) {axis=3, start=[0], length=[2]}
    %b = slice(x) {axis=3, start=[)" +
         half + R"(], length=[2]}
    %n = neg(%b)
    %h = concat()" +
         joined + R"() {axis=-1}
    %turned = mul(%h, %s4)
    %y = add(%plain, %turned)
    return y = %y)";
}

TEST(FuseRope, FindsTheRotationOfTransformers) {
  const std::string text = text_after(entry(kInputs, rotation()), fuse_rope);
  EXPECT_NE(text.find("= rope("), std::string::npos) << text;
  EXPECT_EQ(text.find("= cos("), std::string::npos) << text;
}

TEST(FuseRope, LeavesOtherRotations) {
  for (const std::string& other : {rotation("1"), rotation("2", "%a, %n")})
    EXPECT_EQ(text_after(entry(kInputs, other), fuse_rope), normal_text(entry(kInputs, other)));
}

TEST(FuseAttentionOperands, ReadsSharedHeadsOnce) {
  const char* inputs = "q: f32[2,6,5,4], k: f32[2,3,5,4], v: f32[2,3,5,4]";
  const auto repeated = [](const std::string& axis) {
    std::string text;
    for (const std::string name : {"k", "v"})
      text += "%" + name + "1 = reshape(" + name +
              ") {shape=" + (axis == "2" ? "[2,3,1,5,4]" : "[2,1,3,5,4]") + "}\n%" + name + "2 = expand(%" +
              name + "1) {shape=" + (axis == "2" ? "[2,3,2,5,4]" : "[2,2,3,5,4]") + "}\n%" + name +
              "3 = reshape(%" + name + "2) {shape=[2,6,5,4]}\n";
    return text + "%y = attention(q, %k3, %v3) {layout=\"bhtd\"}\n return y = %y";
  };
  const std::string text = text_after(entry(inputs, repeated("2")), fuse_attention_operands);
  EXPECT_NE(text.find("(q, k, v)"), std::string::npos) << text;
  EXPECT_EQ(text.find("expand"), std::string::npos) << text;
  // Heads that alternate are no groups.
  EXPECT_EQ(text_after(entry(inputs, repeated("1")), fuse_attention_operands),
            normal_text(entry(inputs, repeated("1"))));
}

std::unique_ptr<Model> masked_attention(const Tensor& mask) {
  auto model = std::make_unique<Model>();
  Graph& graph = model->add_entry("forward");
  const Value x = graph.add_input("x", {DType::f32, {1, 1, 3, 4}});
  const Value m = graph.constant(model->add_tensor("mask", mask));
  graph.add_output("y", attention(x, x, x, {.layout = AttentionLayout::kBHTD}, m));
  return model;
}

TEST(FuseAttentionOperands, ConstantMasksThatAreCausal) {
  const auto text_of = [](const Tensor& mask) {
    const auto model = masked_attention(mask);
    return to_text(fuse_attention_operands(model->entry("forward"), {}));
  };
  const float hidden = -std::numeric_limits<float>::infinity();
  const std::string causal =
      text_of(Tensor::of({1, 1, 3, 3}, std::vector<float>{0, hidden, hidden, 0, 0, hidden, 0, 0, 0}));
  EXPECT_NE(causal.find("causal=true"), std::string::npos) << causal;
  EXPECT_EQ(causal.find("has_mask=true"), std::string::npos) << causal;
  const std::string none = text_of(Tensor::of({3, 3}, std::vector<float>(9, 0)));
  EXPECT_EQ(none.find("causal=true"), std::string::npos) << none;
  EXPECT_EQ(none.find("has_mask=true"), std::string::npos) << none;
  for (const std::vector<float>& other : {std::vector<float>{0, hidden, hidden, 0, 0, hidden, 0, hidden, 0},
                                          std::vector<float>{0, hidden, hidden, 0, 0, hidden, 0.5, 0, 0}})
    EXPECT_NE(text_of(Tensor::of({3, 3}, other)).find("has_mask=true"), std::string::npos);
}

}  // namespace
}  // namespace genesis::passes
