// Tests which casts are grouped, and which are left alone.
#include "passes/grouping/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kStates =
    "state @a: f32[2,3] parameter trainable\nstate @b: f32[4,3] parameter trainable\n"
    "state @c: f32[3] parameter trainable\nstate @s: f32[] parameter trainable\n";

std::string text(const std::string& body) {
  return kStates + ("entry f(x: f32[5,3], y: bf16[5,3]) {\n" + body + "\n}");
}

std::string grouped(const std::string& body, bool pays = true, std::optional<int64_t> budget = {}) {
  const Target target = pays ? large_gpu() : Target{};
  return text_after(text(body), group_casts, {.target = &target, .memory_budget = budget});
}

std::string expected(const std::string& body) { return normal_text(text(body)); }

const std::string kRest =
    "%p = linear(y, %wa)\n %n = neg(%p)\n %q = linear(y, %wb)\n return p = %n\n return q = %q";
const std::string kCasts = "%wa = cast(@a) {dtype=bf16}\n %wb = cast(@b) {dtype=bf16}\n";

TEST(GroupCasts, MakesOneNodeWhereThatPays) {
  const std::string body = kCasts + kRest;
  EXPECT_EQ(
      grouped(body),
      expected("%cast_group = cast_group(@a, @b) {dtype=bf16, parts=(1, 1)}\n %p = linear(y, %cast_group)\n"
               "%n = neg(%p)\n %q = linear(y, %cast_group:1)\n return p = %n\n return q = %q"));
  EXPECT_EQ(grouped(body, false), expected(body));
}

TEST(GroupCasts, TakesConcatenationsAlongTheFirstAxis) {
  const std::string results = "return w = %w\n return c = %wc\n return s = %ws";
  const std::string casts =
      kCasts +
      "%wc = cast(@c) {dtype=bf16}\n %ws = cast(@s) {dtype=bf16}\n %w = concat(%wb, %wa) {axis=-2}\n";
  EXPECT_EQ(grouped(casts + results),
            expected("%cast_group = cast_group(@c, @s, @b, @a) {dtype=bf16, parts=(1, 1, 2)}\n"
                     "return w = %cast_group:2\n return c = %cast_group\n return s = %cast_group:1"));
  EXPECT_EQ(grouped(casts + results + "\n return a = %wa"),
            expected("%cast_group = cast_group(@a, @b, @c, @s) {dtype=bf16, parts=(1, 1, 1, 1)}\n"
                     "%w = concat(%cast_group:1, %cast_group) {axis=-2}\n return w = %w\n"
                     "return c = %cast_group:2\n return s = %cast_group:3\n return a = %cast_group"))
      << "a part is read by itself";
}

// 24 and 48 bytes of weights become 64 aligned bytes each.
TEST(GroupCasts, KeepsToAMemoryBudget) {
  const std::string body = kCasts + kRest;
  EXPECT_NE(grouped(body, true, 1 << 20), expected(body));
  EXPECT_EQ(grouped(body, true, 0), expected(body));
}

// A group that moves 64 MiB is not made larger.
TEST(GroupCasts, CutsLargeOnes) {
  const auto model = [](const std::string& body) {
    std::string states;
    for (const char* name : {"a", "b", "c", "d"})
      states += "state @" + std::string(name) + ": f32[4000,2000] parameter trainable\n";
    return states + "entry f() {\n" + body +
           "return a = %wa\n return b = %wb\n return c = %wc\n return d = %wd\n}";
  };
  std::string casts,
      after =
          "%cast_group = cast_group(@a, @b) {dtype=bf16, parts=(1, 1)}\n"
          "%cast_group_1 = cast_group(@c, @d) {dtype=bf16, parts=(1, 1)}\n"
          "return a = %cast_group\n return b = %cast_group:1\n return c = %cast_group_1\n return d = "
          "%cast_group_1:1\n}";
  for (const char* name : {"a", "b", "c", "d"})
    casts += "%w" + std::string(name) + " = cast(@" + name + ") {dtype=bf16}\n";
  const Target target = large_gpu();
  const std::string before = model(casts);
  const size_t states = before.find("entry");
  EXPECT_EQ(text_after(before, group_casts, {.target = &target}),
            normal_text(before.substr(0, states) + "entry f() {\n" + after));
}

// The decision compares seconds: a group may be twice as large if a launch takes twice as long, or if memory is twice
// as fast. If launches take no time, nothing is grouped, and if they take any, small casts are.
TEST(GroupCasts, WeighsLaunchesAgainstBytes) {
  std::string states, casts, results;
  for (const char* name : {"a", "b", "c"}) {  // 24 MB to move, each
    states += std::string("state @") + name + ": f32[2000,2000] parameter trainable\n";
    casts += std::string("%w") + name + " = cast(@" + name + ") {dtype=bf16}\n";
    results += std::string("return ") + name + " = %w" + name + "\n";
  }
  const auto first_group = [&](const Target& target) {
    const std::string text =
        text_after(states + "entry f() {\n" + casts + results + "}", group_casts, {.target = &target});
    const size_t at = text.find("cast_group(");
    return at == std::string::npos ? "" : text.substr(at, text.find(')', at) - at + 1);
  };
  const auto on = [&](double launch, double speed) {
    return first_group({.launch_seconds = launch, .bytes_per_second = speed});
  };
  EXPECT_EQ(on(1e-6, 1e12), "") << "24 MB take 24 us, of which 1.2 are waited for";
  EXPECT_EQ(on(1e-6, 2e12), "cast_group(@a, @b)");
  EXPECT_EQ(on(1e-6, 4e12), "cast_group(@a, @b, @c)");
  EXPECT_EQ(on(3e-6, 2e12), "cast_group(@a, @b, @c)");
  EXPECT_EQ(on(0, 1e12), "");
}

TEST(GroupCasts, LeavesWhatIsAloneOrNoWeightsOrMadeAgain) {
  const auto untouched = [](const std::string& body) { EXPECT_EQ(grouped(body), expected(body)); };
  untouched("%wa = cast(@a) {dtype=bf16}\n %z = cast(x) {dtype=bf16}\n return p = %wa\n return z = %z");
  untouched("%wa = cast(@a) {dtype=bf16}\n %wb = cast(@b) {dtype=f16}\n return p = %wa\n return q = %wb");
  untouched("%wa = cast(@a) {dtype=f64}\n %wb = cast(@b) {dtype=f64}\n return p = %wa\n return q = %wb");
  EXPECT_EQ(grouped(kCasts +
                    "%again = cast(@a) {dtype=bf16}\n return p = %wa\n return q = %wb\n return r = %again"),
            expected("%cast_group = cast_group(@a, @b) {dtype=bf16, parts=(1, 1)}\n"
                     "%again = cast(@a) {dtype=bf16}\n"
                     "return p = %cast_group\n return q = %cast_group:1\n return r = %again"));
}

}  // namespace
}  // namespace genesis::passes
