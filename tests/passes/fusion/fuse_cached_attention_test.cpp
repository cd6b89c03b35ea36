#include "passes/fusion/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kStates =
    "state @k_cache: f32[1,9,2,4] cache\nstate @v_cache: f32[1,9,2,4] cache\n"
    "entry decode(q: f32[1,1,4,4], k: f32[1,1,2,4], v: f32[1,1,2,4], start: i64[], other: i64[]) {\n";
constexpr const char* kEnd = "update @k_cache = %ks\nupdate @v_cache = %vs\n}\n";

std::string fused(const std::string& body) {
  Target target;
  PassContext context;
  context.target = &target;
  return text_after(kStates + body + kEnd, fuse_cached_attention, context);
}

std::string expected(const std::string& body) { return normal_text(kStates + body + "}\n"); }

constexpr const char* kPositions =
    "%zero = arange() {length=[1]}\n%positions = add(%zero, start)\n%one = full() {value=1, dtype=i64}\n"
    "%length = add(%one, start)\n";
constexpr const char* kAppend =
    "%ks = dynamic_update_slice(@k_cache, %kt, start) {axis=1}\n"
    "%vs = dynamic_update_slice(@v_cache, v, start) {axis=1}\n";
constexpr const char* kAttend =
    "%y = attention(%qt, %ks, %vs, %length) {causal=true, has_key_length=true}\nreturn y = %y\n";

TEST(FuseCachedAttention, WithRope) {
  EXPECT_EQ(fused(std::string(kPositions) +
                  "%qt = rope(q, %positions) {theta=100.0}\n%kt = rope(k, %positions) {theta=100.0}\n" +
                  kAppend + kAttend),
            expected("%cached_attention = cached_attention(q, k, v, @k_cache, @v_cache, start) {theta=100.0, "
                     "rotates=true}\n"
                     "return y = %cached_attention\nupdate @k_cache = %cached_attention:1\n"
                     "update @v_cache = %cached_attention:2\n"));
}

TEST(FuseCachedAttention, WithGivenFrequencies) {
  const std::string ropes = "%qt = rope(q, %positions, f)\n%kt = rope(k, %positions, f)\n";
  const std::string states =
      std::string(kStates).replace(std::string(kStates).find("other: i64[]"), 12, "f: f64[2], g: f64[2]");
  Target target;
  PassContext context;
  context.target = &target;
  const auto after = [&](const std::string& turns) {
    return text_after(states + kPositions + turns + kAppend + kAttend + kEnd, fuse_cached_attention, context);
  };
  EXPECT_EQ(
      after(ropes),
      normal_text(states + "%cached_attention = cached_attention(q, k, v, @k_cache, @v_cache, start, f) "
                           "{rotates=true}\n"
                           "return y = %cached_attention\nupdate @k_cache = %cached_attention:1\n"
                           "update @v_cache = %cached_attention:2\n}\n"));
  const std::string two = after("%qt = rope(q, %positions, f)\n%kt = rope(k, %positions, g)\n");
  EXPECT_NE(two.find("rope("), std::string::npos) << two;
}

// Has a start for each row of the batch, and a window.
TEST(FuseCachedAttention, OfRows) {
  const std::string states =
      "state @k_cache: f32[3,9,2,4] cache\nstate @v_cache: f32[3,9,2,4] cache\n"
      "entry decode(q: f32[3,1,4,4], k: f32[3,1,2,4], v: f32[3,1,2,4], start: i64[3], n: i64[3]) {\n";
  Target target;
  PassContext context;
  context.target = &target;
  const auto after = [&](const std::string& append) {
    return text_after(
        states +
            "%positions = reshape(start) {shape=[3,1]}\n%one = full() {value=1, dtype=i64}\n"
            "%length = add(%one, start)\n%qt = rope(q, %positions)\n%kt = rope(k, %positions)\n" +
            append +
            "%y = attention(%qt, %ks, %vs, %length) {causal=true, has_key_length=true, window=5}\n"
            "return y = %y\n" +
            kEnd,
        fuse_cached_attention, context);
  };
  EXPECT_EQ(
      after(kAppend),
      normal_text(states +
                  "%cached_attention = cached_attention(q, k, v, @k_cache, @v_cache, start) {rotates=true, "
                  "window=5}\n"
                  "return y = %cached_attention\nupdate @k_cache = %cached_attention:1\n"
                  "update @v_cache = %cached_attention:2\n}\n"));
  const std::string with_length = after(
      "%ks = dynamic_update_slice(@k_cache, %kt, start, n) {axis=1}\n"
      "%vs = dynamic_update_slice(@v_cache, v, start, n) {axis=1}\n");
  EXPECT_EQ(with_length.find("cached_attention("), std::string::npos) << with_length;
}

TEST(FuseCachedAttention, WithoutRope) {
  EXPECT_EQ(fused(std::string(kPositions) + "%qt = neg(q)\n%kt = neg(k)\n" + kAppend + kAttend),
            expected("%qt = neg(q)\n%kt = neg(k)\n"
                     "%cached_attention = cached_attention(%qt, %kt, v, @k_cache, @v_cache, start)\n"
                     "return y = %cached_attention\nupdate @k_cache = %cached_attention:1\n"
                     "update @v_cache = %cached_attention:2\n"));
}

TEST(FuseCachedAttention, RopesThatDifferStay) {
  const std::string text =
      fused(std::string(kPositions) + "%qt = rope(q, %positions)\n%kt = rope(k, %positions) {theta=5.0}\n" +
            kAppend + kAttend);
  EXPECT_NE(text.find("rope("), std::string::npos) << text;
  EXPECT_NE(text.find("cached_attention("), std::string::npos) << text;
}

TEST(FuseCachedAttention, LeavesWhatDiffers) {
  const auto untouched = [](const std::string& body) {
    const std::string text = fused(body);
    EXPECT_EQ(text.find("cached_attention("), std::string::npos) << text;
  };
  const std::string same = "%qt = neg(q)\n%kt = neg(k)\n";
  // Another number of keys, another position, and another reader of the cache.
  untouched("%two = full() {value=2, dtype=i64}\n%length = add(%two, start)\n" + same + kAppend + kAttend);
  untouched("%one = full() {value=1, dtype=i64}\n%length = add(%one, other)\n" + same + kAppend + kAttend);
  untouched(kPositions + same +
            "%ks = dynamic_update_slice(@k_cache, %kt, other) {axis=1}\n"
            "%vs = dynamic_update_slice(@v_cache, v, start) {axis=1}\n" +
            kAttend);
  untouched(kPositions + same + kAppend + kAttend + "%n = neg(%ks)\nreturn n = %n\n");
  untouched(kPositions + same + kAppend + kAttend + "return caches = %ks\n");
}

}  // namespace
}  // namespace genesis::passes
