#include "passes/fusion/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

// Returns the graph after the pass; `rows` texts are in the cache.
std::string changed(int rows, const std::string& body) {
  const std::string head = fmt::format(
      "state @ks: f32[{0},9,2,4] cache\nstate @vs: f32[{0},9,2,4] cache\n"
      "entry f(q: f32[{0},1,4,4], k: f32[{0},1,2,4], v: f32[{0},1,2,4], start: i64[{0}], count: i64[{0}]) "
      "{{\n",
      rows);
  return text_after(head + body + "}\n", one_row_starts, {});
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

constexpr const char* kUpdates = R"(
%cached = dynamic_update_slice(@ks, k, start) {axis=1}
%counted = dynamic_update_slice(@vs, v, start, count) {axis=1}
%y = attention(q, %cached, %counted, start) {causal=true, has_key_length=true}
return y = %y
)";
constexpr const char* kToken = R"(
%y = cached_attention(q, k, v, @ks, @vs, start)
return y = %y
)";

TEST(OneRowStarts, AreScalarsOfOneRow) {
  const std::string updates = changed(1, kUpdates);
  EXPECT_EQ(count(updates, "reshape(start)"), 3) << updates;
  EXPECT_EQ(count(updates, "reshape(count)"), 1) << updates;
}

TEST(OneRowStarts, OfSeveralRowsStay) {
  const std::string updates = changed(2, kUpdates);
  EXPECT_EQ(count(updates, "reshape"), 0) << updates;
}

TEST(OneRowStarts, OfANewTokenAreScalars) {
  const std::string token = changed(1, kToken);
  EXPECT_EQ(count(token, "reshape(start)"), 1) << token;
  EXPECT_EQ(count(changed(2, kToken), "reshape"), 0);
}

}  // namespace
}  // namespace genesis::passes
