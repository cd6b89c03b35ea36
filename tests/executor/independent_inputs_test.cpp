#include "executor/cuda/independent_inputs.h"

#include <gtest/gtest.h>

#include "executor/session.h"
#include "schema/graph/text.h"

namespace genesis {
namespace {

constexpr const char* kModel = R"(
state @scale: f32[2] parameter trainable = (2.0, -1.0)
state @count: f32[2] buffer = (10.0, 20.0)
tensor #shift: f32[2] = (1.0, 2.0)
entry step(x: f32[2]) {
  %next = add(@count, x)
  %scaled = mul(%next, @scale)
  %y = add(%scaled, #shift)
  %z = add(%y, x)
  return y = %z
  update @count = %next
}
)";

TEST(IndependentInputs, AreWhatNoEarlierStepWrites) {
  Session session(parse_text(kModel), {.optimize = false});
  const Plan& plan = session.plan("step", {{"x", Tensor::of<float>({2}, {1, 2})}});
  ASSERT_EQ(plan.steps.size(), 4u);
  // The update is done in place, so the second step reads the state that the first one writes.
  ASSERT_EQ(plan.steps[1].inputs[0], plan.steps[0].inputs[0]);
  EXPECT_EQ(independent_inputs(plan), (std::vector<uint64_t>{0b11, 0b10, 0b10, 0b10}));
}

}  // namespace
}  // namespace genesis
