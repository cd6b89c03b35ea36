#include "schema/graph/text.h"

#include <gtest/gtest.h>

#include "schema/graph/verify.h"

namespace genesis {
namespace {

constexpr const char* kText = R"(metadata "config" = "{\"layers\": 2}"
state @w: f32[2,3] parameter trainable = (1.0, 2.0, 3.5, -1e-08, inf, 0.1)
state @step: i64[] step
tensor #shift: bf16[3] = (0.0, 1.0, 2.0)
tensor #"odd name": bool[2] = (true, false)
tensor #empty: i32[0,3] = ()
entry forward(x: f32[batch,2,3], "my ids": i64[]) {
  %layers.0.mul = mul(x, @w) : f32[batch,2,3]
  %sum = sum(%layers.0.mul) {axes=(1), keep_dims=true} : f32[batch,1,3]
  %flat = reshape(%sum) {shape=[3*batch]} : f32[3*batch]
  %low = cast(#shift) : f32[3]
  %odd = logical_not(#"odd name") : bool[2]
  %next = add(@step, "my ids") : i64[]
  return y = %flat
  return low = %low
  return input = x
  update @step = %next
}
)";

TEST(Text, PrintsWhatItParses) {
  const auto model = parse_text(kText);
  EXPECT_EQ(to_text(*model), kText);
  EXPECT_EQ(model->states()[0].initial.as<float>()[5], 0.1f);
  EXPECT_TRUE(model->states()[0].trainable);
  EXPECT_EQ(model->states()[1].role, StateRole::kStep);
  EXPECT_EQ(model->metadata.at("config"), "{\"layers\": 2}");
}

TEST(Text, IsTheSameForACopy) {
  const auto model = parse_text(kText);
  const Model copy = *model;
  EXPECT_EQ(to_text(copy), kText);
}

TEST(Text, LeavesOutLargeTensorsAndRefusesToReadThemBack) {
  const auto model = parse_text(kText);
  const std::string text = to_text(*model, {.max_values = 4});
  EXPECT_NE(text.find("state @w: f32[2,3] parameter trainable = ...\n"), std::string::npos);
  EXPECT_THROW(parse_text(text), Error);
}

TEST(Text, TypesMayBeLeftOutButNotWrong) {
  const auto model = parse_text("entry f(x: f32[4]) {\n %y = neg(x)\n return y = %y\n}");
  EXPECT_EQ(to_text(*model), "entry f(x: f32[4]) {\n  %y = neg(x) : f32[4]\n  return y = %y\n}\n");
  EXPECT_THROW(parse_text("entry f(x: f32[4]) {\n %y = neg(x) : f32[5]\n return y = %y\n}"), Error);
}

void expect_error(const char* text, const char* part) {
  try {
    parse_text(text);
    ADD_FAILURE() << "no error for: " << text;
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Text, ErrorsNameTheLineAndTheThing) {
  expect_error("entry f(x: f32[4]) {\n  %y = nonsense(x)\n}", "there is no op 'nonsense' (in line 2");
  expect_error("entry f(x: f32[4]) {\n  %y = neg(%z)\n}", "no value '%z'");
  expect_error("entry f(x: f32[4]) {\n  %y = neg(@w)\n}", "no state 'w'");
  expect_error("entry f(x: f32[4]) {\n  %y = neg(#c)\n}", "no tensor 'c'");
  expect_error("entry f(x: f32[4]) {\n  %y = neg(x)\n  %y = neg(x)\n}", "the name 'y' is taken");
  expect_error("entry f(x: f32[4]) {\n  return y\n}", "expected '='");
  expect_error("entry f(x: f32[4", "expected ']'");
  expect_error("state @w: f33[4] parameter", "'f33' is not a dtype");
  expect_error("state @w: f32[4] weight", "'weight' is not the role");
  expect_error("state @w: f32[4] parameter = (1.0)", "1 values given");
  expect_error("entry f(x: f32[4]) { %y = sum(x) {axis=1} }", "unknown attribute 'axis'");
  expect_error("entry f(x: f32[4]) { %y = sum(x) {axes=(1, \"a\")} }", "mixes");
  expect_error("banana", "'banana' is not a declaration");
}

TEST(Text, NodeTextNamesOrigins) {
  const auto model = parse_text("entry f(x: f32[4]) {\n}");
  Graph& graph = model->entry("f");
  graph.set_origins({"layers.0.act"});
  graph.add_node(*find_op("neg"), {}, {graph.input("x")}, "y");
  EXPECT_EQ(node_text(graph, graph.nodes()[0], {.origins = true}), "%y = neg(x) : f32[4]  // layers.0.act");
}

// Any damage is an Error or another valid model, never a crash.
TEST(Text, DamagedTextIsRefusedOrValid) {
  const std::string pieces[] = {"%",   "@w", "(",     ")",   "{",  "}",   "[",
                                "]",   ":",  ",",     "=",   "\"", "-1",  "9999999999999999999",
                                "neg", "x",  "entry", "f32", "\\", "...", "batch*"};
  uint32_t seed = 1;
  const auto random = [&](size_t below) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<size_t>(seed >> 8) % below;
  };
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = kText;
    for (size_t changes = 1 + random(3); changes > 0; --changes) {
      const size_t at = random(text.size());
      if (random(2) == 0)
        text.erase(at, 1 + random(8));
      else
        text.insert(at, pieces[random(std::size(pieces))]);
    }
    try {
      const auto model = parse_text(text);
      verify(*model);
      to_text(*model);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace genesis
