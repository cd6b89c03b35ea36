#include "passes/training/autodiff.h"

#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

std::string gradient_text(const char* text, const std::vector<std::string>& wrt) {
  const auto model = parse_text(text);
  Graph& graph = model->entry("f");
  std::vector<Value> values;
  for (const std::string& name : wrt) {
    const int32_t state = model->find_state(name);
    values.push_back(state >= 0 ? graph.state(state) : graph.input(name));
  }
  const std::vector<Value> dx = gradients(graph, graph.output("loss"), values);
  for (size_t i = 0; i < dx.size(); ++i) {
    EXPECT_EQ(dx[i].type(), values[i].type());
    graph.add_output("d" + wrt[i], dx[i]);
  }
  verify(graph);
  const std::string result = to_text(graph, {.origins = true});
  return result.substr(result.find("%loss = "));
}

TEST(Autodiff, SumsContributionsAndUndoesBroadcasting) {
  EXPECT_EQ(gradient_text(R"(
state @w: f32[3] parameter trainable
entry f(x: f32[4,3]) {
  %h = mul(x, @w)
  %a = add(%h, @w)
  %loss = sum(%a)
  return loss = %loss
}
)",
                          {"w"}),
            R"(%loss = sum(%a) : f32[]
  %loss.grad.full = full() {value=1} : f32[]
  %loss.grad.reshape = reshape(%loss.grad.full) {shape=[1,1]} : f32[1,1]  // loss
  %loss.grad.expand = expand(%loss.grad.reshape) {shape=[4,3]} : f32[4,3]  // loss
  %a.grad.sum = sum(%loss.grad.expand) {axes=(0), keep_dims=true} : f32[1,3]  // a
  %a.grad.reshape = reshape(%a.grad.sum) {shape=[3]} : f32[3]  // a
  %h.grad.mul = mul(%loss.grad.expand, x) : f32[4,3]  // h
  %h.grad.sum = sum(%h.grad.mul) {axes=(0), keep_dims=true} : f32[1,3]  // h
  %h.grad.reshape = reshape(%h.grad.sum) {shape=[3]} : f32[3]  // h
  %h.grad.add = add(%a.grad.reshape, %h.grad.reshape) : f32[3]  // h
  return loss = %loss
  return dw = %h.grad.add
}
)");
}

TEST(Autodiff, ValuesOffThePathGetZerosAndIntegersCarryNothing) {
  const std::string text = gradient_text(R"(
state @w: f32[3] parameter trainable
state @unused: f32[2] parameter trainable
entry f(x: f32[3]) {
  %wrong_path = gt(@w, x)
  %mask = cast(%wrong_path)
  %h = mul(@w, %mask)
  %loss = sum(%h)
  return loss = %loss
}
)",
                                         {"w", "unused"});
  EXPECT_NE(text.find("return dunused = %unused.grad.full"), std::string::npos) << text;
  EXPECT_EQ(text.find("wrong_path.grad"), std::string::npos) << text;
  EXPECT_EQ(text.find("mask.grad"), std::string::npos) << text;
}

void expect_error(const char* text, const char* part) {
  const auto model = parse_text(text);
  Graph& graph = model->entry("f");
  try {
    gradients(graph, graph.output("loss"), {graph.input("x")});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Autodiff, ErrorsNameTheNode) {
  expect_error("entry f(x: f32[3]) {\n return loss = x\n}", "'x' of type f32[3]: a loss is one real number");
  expect_error("entry f(x: i64[]) {\n return loss = x\n}", "'x' of type i64[]");
}

TEST(Autodiff, LooksNoFurtherBackThanAsked) {
  const auto model =
      parse_text("entry f(x: f32[]) {\n %a = square(x)\n %b = mul(%a, x)\n return loss = %b\n}");
  Graph& graph = model->entry("f");
  const Value x = graph.input("x");
  const std::vector<Value> dx = gradients_if_any(graph, graph.output("loss"), {x}, 1);
  // d(a * x) / dx with `a` held constant is just `a`.
  const Node& last = graph.nodes().back();
  EXPECT_EQ(last.name, "b.grad.mul");
  EXPECT_EQ(dx[0].id, last.outputs[0]);
}

}  // namespace
}  // namespace genesis::passes
