// Tests that a cache of any size fits any model that declares what it caches.
#include "passes/core/cache_size.h"

#include <algorithm>
#include <sstream>

#include "schema/graph/caches.h"
#include "tests/op_harness.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

// A model that no zoo knows: the positions of its keys come first, and its sums have none.
constexpr const char* kText = R"(state @keys: f32[4,1,2] cache of keys rows 1 positions 0
state @sums: f32[1,2] cache of sums rows 0
state @weight: f32[2] parameter = (1, 2)
entry decode(tokens: f32[1,1,2], place: i64[]) {
  %first = permute(tokens) {axes=(1,0,2)} : f32[1,1,2]
  %new_keys = dynamic_update_slice(@keys, %first, place) {axis=0} : f32[4,1,2]
  %flat = reshape(tokens) {shape=[1,2]} : f32[1,2]
  %new_sums = add(@sums, %flat) : f32[1,2]
  %wide = expand(%flat) {shape=[4,1,2]} : f32[4,1,2]
  %scaled = mul(%new_keys, @weight) : f32[4,1,2]
  %rows = permute(%scaled) {axes=(1,0,2)} : f32[1,4,2]
  %split = reshape(%rows) {shape=[1,2,2,2]} : f32[1,2,2,2]
  return all = %scaled
  update @keys = %new_keys
  update @sums = %new_sums
}
entry read_row(row: i64[], x: f32[1,seq]) {
  %one = dynamic_slice(@keys, row) {axis=1, length=[1]} : f32[4,1,2]
  return keys = %one
}
entry twice(x: f32[1,batch]) {
  %y = add(x, x) : f32[1,batch]
  return y = %y
}
)";

std::string without_lines_with(const std::string& text, const std::vector<std::string>& words) {
  std::istringstream in(text);
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (std::ranges::none_of(words, [&](const std::string& w) { return line.find(w) != std::string::npos; }))
      kept += line + "\n";
  return kept;
}

TEST(CacheSize, IsWrittenIntoStatesInputsAndShapes) {
  const auto model = parse_text(without_lines_with(kText, {"%wide", "%rows", "%split"}));
  const auto other = with_cache_size(*model, {3, 9});
  verify(*other);
  const auto expected = parse_text(R"(state @keys: f32[9,3,2] cache of keys rows 1 positions 0
state @sums: f32[3,2] cache of sums rows 0
state @weight: f32[2] parameter = (1, 2)
entry decode(tokens: f32[3,1,2], place: i64[]) {
  %first = permute(tokens) {axes=(1,0,2)} : f32[1,3,2]
  %new_keys = dynamic_update_slice(@keys, %first, place) {axis=0} : f32[9,3,2]
  %flat = reshape(tokens) {shape=[3,2]} : f32[3,2]
  %new_sums = add(@sums, %flat) : f32[3,2]
  %scaled = mul(%new_keys, @weight) : f32[9,3,2]
  return all = %scaled
  update @keys = %new_keys
  update @sums = %new_sums
}
entry read_row(row: i64[], x: f32[1,seq]) {
  %one = dynamic_slice(@keys, row) {axis=1, length=[1]} : f32[9,1,2]
  return keys = %one
}
entry twice(x: f32[1,batch]) {
  %y = add(x, x) : f32[1,batch]
  return y = %y
}
)");
  EXPECT_EQ(to_text(*other), to_text(*expected));
  EXPECT_EQ(to_text(*with_cache_size(*other, {1, 4})), to_text(*model)) << "there and back";
  EXPECT_EQ(other->state(2).initial.data(), model->state(2).initial.data()) << "weights are shared";
}

TEST(CacheSize, RowsFollowAReshapeThroughItsGroups) {
  const auto model = parse_text(R"(
state @keys: f32[1,4,6] cache of keys rows 0 positions 1
entry decode(x: f32[1,seq,6], start: i64[1]) {
  %new = dynamic_update_slice(@keys, x, start) {axis=1}
  %heads = reshape(%new) {shape=[1,4,2,3]}
  %flat = reshape(x) {shape=[seq,6]}
  %back = reshape(%flat) {shape=[1,seq,2,3]}
  %one = reshape(start) {shape=[1,1,1]}
  %wide = expand(%one) {shape=[1,1,6]}
  return heads = %heads
  return flat = %flat
  return wide = %wide
  update @keys = %new
}
)");
  const auto fewer = parse_text(without_lines_with(to_text(*model), {"%back"}));
  const auto other = with_cache_size(*fewer, {5, 8});
  const Graph& decode = other->entry("decode");
  const auto shape_of = [&](const char* name) {
    for (const NamedValue& output : decode.outputs())
      if (output.name == name) return decode.type(output.value).shape.to_string();
    return std::string();
  };
  EXPECT_EQ(shape_of("heads"), "[5,8,2,3]");
  EXPECT_EQ(shape_of("flat"), "[5*seq,6]");
  EXPECT_EQ(shape_of("wide"), "[5,1,6]");
}

// Heads are repeated in a shape in which they are one axis with rows and positions.
TEST(CacheSize, RowsAndPositionsLeaveAnAxisThatTheyShare) {
  const auto model = parse_text(R"(
state @keys: f32[4,16,2,3] cache of keys rows 0 positions 1
entry decode(x: f32[4,1,2,3], start: i64[4]) {
  %new = dynamic_update_slice(@keys, x, start) {axis=1}
  %flat = reshape(%new) {shape=[128,1,3]}
  %twice = expand(%flat) {shape=[128,2,3]}
  %heads = reshape(%twice) {shape=[4,16,4,3]}
  return heads = %heads
  update @keys = %new
}
)");
  const auto shape_in = [&](const CacheSize& size) {
    const auto other = with_cache_size(*model, size);
    const Graph& decode = other->entry("decode");
    return decode.type(decode.outputs()[0].value).shape.to_string();
  };
  EXPECT_EQ(shape_in({2, 16}), "[2,16,4,3]");
  EXPECT_EQ(shape_in({4, 32}), "[4,32,4,3]");
  EXPECT_EQ(shape_in({3, 8}), "[3,8,4,3]");
}

// Sinks are expanded to stand beside the scores of each row.
TEST(CacheSize, RowsReachWhatIsExpandedBesideThem) {
  const auto model = parse_text(R"(
state @keys: f32[1,8,3] cache of keys rows 0 positions 1
state @sinks: f32[1,1,3] parameter
entry decode(x: f32[1,1,3], start: i64[1]) {
  %new = dynamic_update_slice(@keys, x, start) {axis=1}
  %column = expand(@sinks) {shape=[1,1,3]}
  %both = concat(%column, %new) {axis=1}
  return both = %both
  update @keys = %new
}
)");
  for (const int64_t rows : {4, 1, 2}) {
    const auto other = with_cache_size(*with_cache_size(*model, {4, 8}), {rows, 16});
    const Graph& decode = other->entry("decode");
    EXPECT_EQ(decode.type(decode.outputs()[0].value).shape.to_string(),
              "[" + std::to_string(rows) + ",17,3]");
  }
}

TEST(CacheSize, WhatHasNoOtherSizeIsAnError) {
  const auto refused = [](const std::string& text, const CacheSize& size,
                          const std::vector<std::string>& parts) {
    const auto model = parse_text(text);
    genesis::testing::expect_error([&] { with_cache_size(*model, size); }, parts);
  };
  refused("state @w: f32[2] parameter\nentry f(x: f32[2]) {\n return y = x\n}\n", {2, 8},
          {"declares no caches"});
  refused(kText, {0, 8}, {"0 rows"});
  refused(kText, {2, -1}, {"-1 positions"});
  refused(kText, {1, 8}, {"'decode'", "1 rows of 8 positions", "'split'", "reshape"});
  refused(R"(
state @keys: f32[1,4,6] cache of keys rows 0 positions 1
entry decode(x: f32[1,1,6], position: i64[]) {
  %new = dynamic_update_slice(@keys, x, position) {axis=1}
  return y = %new
}
)",
          {2, 8}, {"'decode'", "'position' is a scalar", "i64[2]"});
}

}  // namespace
}  // namespace genesis::passes
