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

// A prompt that is read into one row writes its tokens only.
TEST(UpdateRows, WriteNewTokensOnly) {
  const std::string head =
      "state @ks: f32[3,9,2,4] cache\nentry f(k: f32[1,4,2,4], start: i64[1], count: i64[1], row: i64[]) {\n"
      "%own = dynamic_slice(@ks, row) {axis=0, length=[1]}\n"
      "%new = dynamic_update_slice(%own, k, start, count) {axis=1}\n";
  const std::string back =
      "%whole = dynamic_update_slice(@ks, %new, row) {axis=0}\nreturn y = %new\nupdate @ks = %whole\n}\n";
  const Target target;
  const std::string text = text_after(head + back, update_rows, {.target = &target});
  EXPECT_EQ(count(text, "dynamic_update_slice("), 1) << text;
  EXPECT_EQ(count(text, "dynamic_slice("), 1) << text;
  EXPECT_EQ(count(text, "f32[1,27,2,4]"), 2) << text;
  // A row that goes elsewhere stays as it is.
  const std::string other = text_after(head + "return y = %new\n}\n", update_rows, {.target = &target});
  EXPECT_EQ(count(other, "f32[1,27,2,4]"), 0) << other;
  // A file for every device keeps its rows open.
  const std::string file = text_after(head + back, update_rows, {});
  EXPECT_EQ(count(file, "f32[1,27,2,4]"), 0) << file;
}

}  // namespace
}  // namespace genesis::passes
