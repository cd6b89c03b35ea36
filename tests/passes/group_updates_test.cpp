// Tests which updates are grouped, and which are left alone.
#include "passes/grouping/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kInputs =
    "entry f(p: f32[2], g: bf16[2], m: f32[2], v: f32[2], q: f32[3], h: f32[3], n: f32[3], w: f32[3], lr: "
    "f32[], "
    "step: i64[], scale: f32[]) {\n";

std::string grouped(const std::string& body, bool pays = true) {
  const Target target = pays ? large_gpu() : Target{};
  return text_after(kInputs + body + "\n}", group_updates, {.target = &target});
}

std::string expected(const std::string& body) { return normal_text(kInputs + body + "\n}"); }

constexpr const char* kTwo =
    "%a = adam_update(lr, step, scale, p, g, m, v) {has_scale=true, weight_decays=(0.5)}\n"
    "%b = adam_update(lr, step, scale, q, h, n, w) {has_scale=true, weight_decays=(0.0)}\n"
    "return p = %a\n return m = %a:1\n return v = %a:2\n return q = %b\n return n = %b:1\n return w = %b:2";

TEST(GroupUpdates, MakesOneNodeWhereThatPays) {
  EXPECT_EQ(grouped(kTwo),
            expected("%adam_update = adam_update(lr, step, scale, p, q, g, h, m, n, v, w) "
                     "{has_scale=true, weight_decays=(0.5, 0.0)}\n"
                     "return p = %adam_update\n return m = %adam_update:2\n return v = "
                     "%adam_update:4\n return q = %adam_update:1\n return n = %adam_update:3\n "
                     "return w = %adam_update:5"));
  EXPECT_EQ(grouped(kTwo, false), expected(kTwo));
}

TEST(GroupUpdates, LeavesWhatDiffersOrIsReadOrIsAlone) {
  const auto untouched = [](const std::string& body) { EXPECT_EQ(grouped(body), expected(body)); };
  const std::string first =
      "%a = adam_update(lr, step, scale, p, g, m, v) {has_scale=true, weight_decays=(0.0)}\n";
  untouched(first + "return p = %a");
  untouched(first +
            "%b = adam_update(lr, step, scale, q, h, n, w) {beta1=0.5, has_scale=true, "
            "weight_decays=(0.0)}\n return p = %a\n return q = %b");
  untouched(first +
            "%b = adam_update(lr, step, scale, q, h, n, w) {has_scale=true, weight_decays=(0.0)}\n %c = "
            "neg(%b)\n return p = %a\n return q = %c");
  untouched(
      "%a = adam_update(lr, step, p, g, m, v) {weight_decays=(0.0)}\n %b = adam_update(lr, step, q, h, n, w) "
      "{weight_decays=(0.0)}\n return p = %a\n "
      "return q = %b");
}

// Small parameters share a node without a scale, too; what differs in more than its tensors stays alone.
TEST(GroupUpdates, MakesOneNodeOfSmallUpdatesBySgd) {
  EXPECT_EQ(grouped("%a = sgd_update(p, g, lr, step, m) {momentum=0.5}\n"
                    "%b = sgd_update(q, h, lr, step, n) {momentum=0.5}\n"
                    "%c = sgd_update(w, n, lr, step, q) {momentum=0.25}\n"
                    "return p = %a\n return m = %a:1\n return q = %b\n return n = %b:1\n return w = %c"),
            expected("%sgd_update = sgd_update(p, q, g, h, lr, step, m, n) {momentum=0.5, parameters=2}\n"
                     "%c = sgd_update(w, n, lr, step, q) {momentum=0.25}\n"
                     "return p = %sgd_update\n return m = %sgd_update:2\n return q = %sgd_update:1\n "
                     "return n = %sgd_update:3\n return w = %c"));
}

TEST(GroupUpdates, SumsTheSquaresOfSmallTensorsTogether) {
  const std::string squares = grouped(
      "%a = sum_squares(p)\n %b = sum_squares(q)\n %l = expand(lr) {shape=[1000,1000]}\n %c = "
      "sum_squares(%l)\n"
      "%ra = reshape(%a) {shape=[1]}\n %rb = reshape(%b) {shape=[1]}\n %rc = reshape(%c) {shape=[1]}\n"
      "%all = concat(%ra, %rb, %rc) {axis=0}\n %s = sum(%all) {axes=(0)}\n return s = %s");
  EXPECT_NE(squares.find("sum_squares(p, q)"), std::string::npos) << squares;
  EXPECT_NE(squares.find("sum_squares(%l)"), std::string::npos) << squares;
  EXPECT_NE(squares.find("f32[2]"), std::string::npos) << squares;
}

}  // namespace
}  // namespace genesis::passes
