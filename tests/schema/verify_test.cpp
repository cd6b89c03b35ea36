#include "schema/graph/verify.h"

#include <gtest/gtest.h>

#include "schema/graph/text.h"

namespace genesis {
namespace {

constexpr const char* kText = R"(
state @w: f32[3] parameter trainable
tensor #c: f32[3] = (1.0, 2.0, 3.0)
entry f(x: f32[batch,3]) {
  %a = mul(x, @w)
  %b = sum(%a) {axes=(0)}
  %d = add(%b, #c)
  return y = %d
  return a = %a
  update @w = %d
}
)";

// The graph's own functions maintain most invariants, so the tests break them through const_cast.
template <class T>
T& mutate(const T& x) {
  return const_cast<T&>(x);
}

class Verify : public ::testing::Test {
 protected:
  Graph& graph() { return model_->entry("f"); }
  Node& node(size_t i) { return mutate(graph().nodes()[i]); }
  ValueInfo& value(ValueId id) { return mutate(graph().value(id)); }

  void expect_error(const char* part) {
    try {
      verify(*model_);
      ADD_FAILURE() << "no error, expected: " << part;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }

  std::unique_ptr<Model> model_ = parse_text(kText);
};

TEST_F(Verify, AcceptsAValidModel) { EXPECT_NO_THROW(verify(*model_)); }

TEST_F(Verify, RefusesValuesOutOfRange) {
  node(1).inputs[0] = ValueId{1000};
  expect_error("value 1000, which does not exist (in node 'b') (in entry point 'f')");
  node(1).inputs[0] = ValueId{-1};
  expect_error("value -1");
}

TEST_F(Verify, RefusesAnOrderThatIsNotTopological) {
  node(0).inputs[1] = node(2).outputs[0];
  expect_error("its input 'd' is made by a later node");
  node(0).inputs[1] = node(0).outputs[0];
  expect_error("its input 'a' is made by a later node");
}

TEST_F(Verify, RefusesTypesThatAreNotTheInferredOnes) {
  value(node(1).outputs[0]).type.shape = Shape{4};
  expect_error("its type is f32[4], the inferred type is f32[3] (in node 'b')");
}

TEST_F(Verify, RefusesAttributesTheOpDoesNotKnow) {
  node(1).attributes.set("color", std::string("red"));
  expect_error("unknown attribute 'color'");
}

TEST_F(Verify, RefusesIncompleteAttributes) {
  node(1).attributes = {};
  expect_error("its attributes are not complete (in node 'b')");
}

TEST_F(Verify, RefusesANodeWithoutAnOp) {
  node(1).op = nullptr;
  expect_error("it has no op (in node 'b')");
}

TEST_F(Verify, RefusesAWrongNumberOfInputsAndOutputs) {
  node(2).inputs.pop_back();
  expect_error("takes 2 inputs, 1 were given (in node 'd')");
  node(2).inputs.push_back(node(1).outputs[0]);
  node(2).outputs.push_back(node(1).outputs[0]);
  expect_error("it has 2 outputs");
}

TEST_F(Verify, RefusesRepeatedNames) {
  node(1).name = "a";
  expect_error("node 'a' appears twice");
  node(1).name = "";
  expect_error("node has an empty name");
}

TEST_F(Verify, RefusesValuesThatBelongToSomethingElse) {
  value(node(1).outputs[0]).producer = NodeId{0};
  expect_error("it says it is output 0 of node 'a', which it is not (in value 'b')");
  value(node(1).outputs[0]).producer = NodeId{77};
  expect_error("there is no node 77");
  value(node(1).outputs[0]).kind = static_cast<ValueKind>(9);
  expect_error("its kind 9 is unknown");
}

TEST_F(Verify, RefusesBadTables) {
  value(node(0).inputs[1]).index = 5;
  expect_error("there is no state 5 (in value 'w')");
  value(node(0).inputs[1]).index = 0;
  value(node(2).inputs[1]).index = -2;
  expect_error("there is no tensor -2 (in value 'c')");
}

TEST_F(Verify, RefusesBadOutputsAndUpdates) {
  mutate(graph().outputs())[0].value = ValueId{99};
  expect_error("output 'y' is value 99");
  mutate(graph().outputs())[0] = {"a", node(0).outputs[0]};
  expect_error("output 'a' appears twice");
}

TEST_F(Verify, RefusesBadUpdates) {
  auto& updates = mutate(graph().updates());
  updates[0].value = node(0).outputs[0];
  expect_error("its type is f32[batch,3], the state is f32[3] (in the update of state 'w')");
  updates[0] = {3, node(2).outputs[0]};
  expect_error("it updates state 3");
  updates.assign(2, {0, node(2).outputs[0]});
  expect_error("update of state 'w' appears twice");
}

TEST_F(Verify, RefusesHugeAndNegativeSizes) {
  value(graph().inputs()[0]).type.shape = Shape{int64_t{1} << 40, int64_t{1} << 40};
  expect_error("the limit for one tensor");
  value(graph().inputs()[0]).type.shape = Shape{0, int64_t{1} << 40, int64_t{1} << 40};
  expect_error("the limit for one tensor");
  value(graph().inputs()[0]).type.shape = Shape{Dim::symbol("batch"), int64_t{1} << 40, int64_t{1} << 40};
  expect_error("the limit for one tensor");
  value(graph().inputs()[0]).type.shape = Shape{-1, 3};
  expect_error("negative size");
  value(graph().inputs()[0]).type.shape = Shape(std::vector<Dim>(20, Dim(1)));
  expect_error("rank 20 is above the limit");
}

TEST_F(Verify, RefusesStatesAndTensorsThatDoNotFit) {
  mutate(model_->states())[0].initial = Tensor::of<float>({2}, {1, 2});
  expect_error("its type is f32[2], the state is f32[3] (in state 'w')");
  mutate(model_->states())[0].initial = Tensor();
  mutate(model_->states())[0].role = static_cast<StateRole>(77);
  expect_error("its role 77 is unknown");
  mutate(model_->states())[0].role = StateRole::kBuffer;
  mutate(model_->tensors())[0].tensor = Tensor({DType::f32, Shape{3}}, nullptr, nullptr);
  expect_error("it has no data (in tensor 'c')");
}

}  // namespace
}  // namespace genesis
