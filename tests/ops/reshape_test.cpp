// Tests reshape and related ops: sizes are resolved algebraically, and no bytes move.
#include "schema/ops/tensor/reshape.h"

#include "executor/runtime/device.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

void check_reshape(const std::string& name, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                   const std::function<Value(Value)>& op) {
  check({.name = name,
         .inputs = {real(from)},
         .build = [=](const Inputs& in) { return Outputs{op(in[0])}; },
         .reference =
             [=](const Refs& in) {
               return Refs{{to, in[0].data}};
             }});
}

TEST(Reshape, Shapes) {
  check_reshape("reshape", {2, 6}, {3, 4}, [](Value x) { return reshape(x, {3, 4}); });
  check_reshape("reshape_open", {2, 6}, {4, 3}, [](Value x) { return reshape(x, {-1, 3}); });
  check_reshape("reshape_scalar", {1, 1}, {}, [](Value x) { return reshape(x, {}); });
  check_reshape("reshape_none", {0, 4}, {2, 0}, [](Value x) { return reshape(x, {2, 0}); });
  check_reshape("flatten", {2, 3, 4}, {24}, [](Value x) { return flatten(x); });
  check_reshape("flatten_middle", {2, 3, 4, 5}, {2, 12, 5}, [](Value x) { return flatten(x, 1, 2); });
  check_reshape("flatten_scalar", {}, {1}, [](Value x) { return flatten(x); });
  check_reshape("squeeze", {2, 1, 3}, {2, 3}, [](Value x) { return squeeze(x, 1); });
  check_reshape("squeeze_not", {2, 3}, {2, 3}, [](Value x) { return squeeze(x, 1); });
  check_reshape("unsqueeze_end", {2, 3}, {2, 3, 1}, [](Value x) { return unsqueeze(x, -1); });
  check_reshape("unsqueeze_front", {2, 3}, {1, 2, 3}, [](Value x) { return unsqueeze(x, 0); });
}

// In a plan a reshape is a view of its operand. Its kernel only computes constants while a graph is compiled.
TEST(Reshape, OfAConstant) {
  const ops::Reshape op{{3, 2}};
  const TensorType from{DType::f32, {2, 3}}, to{DType::f32, {3, 2}};
  const Attributes attributes = to_attributes(op);
  const auto folded = target_of("cpu").evaluate({*find_op("reshape"), attributes, {&from, 1}, {&to, 1}},
                                                std::vector{Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(folded.has_value());
  EXPECT_EQ((*folded)[0].type(), to);
  EXPECT_EQ((*folded)[0].to_doubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(Reshape, Symbols) {
  const TensorType x{DType::f32, Shape::parse("[batch,seq,12]")};
  const auto types = infer_case({x}, [](const Inputs& in) {
    return Outputs{reshape(in[0], {-1, 12}), reshape(in[0], Shape::parse("[batch,seq,3,4]")),
                   flatten(in[0], 0, 1), reshape(in[0], {-1})};
  });
  const char* expected[] = {"f32[batch*seq,12]", "f32[batch,seq,3,4]", "f32[batch*seq,12]",
                            "f32[12*batch*seq]"};
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(types[i].to_string(), expected[i]);
}

TEST(Reshape, Errors) {
  const auto fails = [](Value (*op)(Value), const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case({{DType::f32, {3, 4}}}, [&](const Inputs& in) { return Outputs{op(in[0])}; });
        },
        parts);
  };
  fails(
      [](Value x) {
        return reshape(x, {5, 2});
      },
      {"cannot reshape [3,4] to [5,2]", "12 elements against 10"});
  fails([](Value x) { return reshape(x, {5, -1}); }, {"12 elements are not a multiple of 5"});
  fails([](Value x) { return reshape(x, {-1, -1}); }, {"only one may be -1"});
  fails([](Value x) { return flatten(x, 1, 0); }, {"the start is after the end"});
}

}  // namespace
}  // namespace genesis::testing
