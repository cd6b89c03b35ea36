// Tests the log of a pass about its rewrites, and that nothing is logged at higher levels.
#include "passes/core/rewrite_log.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "passes/fusion/elementwise/fuse_elementwise.h"
#include "passes/fusion/passes.h"
#include "passes/simplify/passes.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

// Returns the lines that one pass logs at `level` for an entry point with this body.
std::string log_of(const Pass& pass, const std::string& inputs, const std::string& body,
                   spdlog::level::level_enum level = spdlog::level::debug, const PassContext& context = {}) {
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  const auto logger =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(lines));
  logger->set_pattern("%v");
  logger->set_level(level);
  spdlog::set_default_logger(logger);
  const auto model = parse_text(entry(inputs, body));
  run_passes(*model->entries()[0], {&pass, 1}, context);
  spdlog::set_default_logger(before);
  return lines.str();
}

constexpr Pass kLinear{"fuse_linear", "", fuse_linear}, kSimplify{"simplify", "", simplify},
    kCse{"cse", "", eliminate_common_subexpressions}, kAddend{"fuse_addend", "", fuse_addend},
    kElementwise{"fuse_elementwise", "", fuse_elementwise};

constexpr const char *kInputs = "x: f32[2,3], w: f32[4,3], b: f32[4]",
                     *kLayer =
                         "%mlp.up = matmul(x, w) {transpose_b=true}\n %y = add(%mlp.up, b)\n return y = %y";

TEST(RewriteLog, NamesThePassTheAuthorsNodeAndBothSides) {
  EXPECT_EQ(log_of(kLinear, kInputs, kLayer), "fuse_linear: 'mlp.up' matmul + add -> linear\n");
  EXPECT_EQ(log_of(kSimplify, "x: f32[3]", "%a = neg(x)\n %b = sub(x, %a)\n return y = %b"),
            "simplify: 'b' sub -> add\n");
}

TEST(RewriteLog, IsSilentBelowDebugAndOutsideOfPasses) {
  EXPECT_EQ(log_of(kLinear, kInputs, kLayer, spdlog::level::info), "");
  EXPECT_EQ(log_of(kLinear, kInputs, "%y = linear(x, w, b)\n return y = %y"), "");
}

// An existing value replaces the node.
TEST(RewriteLog, NamesTheValueWhereNothingIsMade) {
  EXPECT_EQ(log_of(kSimplify, "x: f32[3]", "%a = neg(x)\n %b = neg(%a)\n return y = %b"),
            "simplify: 'b' neg -> 'x'\n");
  EXPECT_EQ(log_of(kCse, "x: f32[3]", "%a = neg(x)\n %b = neg(x)\n return a = %a\n return b = %b"),
            "cse: 'b' neg -> 'a'\n");
}

// These passes replace several nodes at once, each by its own result.
TEST(RewriteLog, IsOneLineARewrite) {
  EXPECT_EQ(log_of(kAddend, "x: f32[2,3], w: f32[4,3], r: f32[2,4]",
                   "%m = matmul(x, w) {transpose_b=true}\n %y = add(%m, r)\n return y = %y"),
            "fuse_addend: 'm' matmul + add -> matmul\n");
  EXPECT_EQ(log_of(kElementwise, "x: f32[4]",
                   "%a = exp(x)\n %b = exp(%a)\n %c = neg(%b)\n return b = %b\n return c = %c"),
            "fuse_elementwise: 'a' 2 exp + neg -> fused\n");
}

// A rewrite that the target refuses is not logged.
TEST(RewriteLog, LeavesOutWhatTheTargetCannotRun) {
  const Target target{.can_run = [](const KernelQuery&) { return std::optional<std::string>("never"); }};
  EXPECT_EQ(log_of(kLinear, kInputs, kLayer, spdlog::level::debug, {.target = &target}), "");
}

}  // namespace
}  // namespace genesis::passes
