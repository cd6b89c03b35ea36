// Tests training in f16 and bf16 against f32: the same curve, a loss scale that backs off on the device, and an end
// if no scale helps. On the CPU and on a GPU; the latter is skipped without one.
#include <cmath>

#include "executor/training/trainer.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/executor/overflowing_f16.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

class LowPrecisionTraining : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cuda" && !why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  }
};

struct Curve {
  std::vector<double> losses, scales;
  std::vector<int64_t> skipped;  // skipped steps in a row, by step
};

Curve train_tiny(const std::string& options, int steps, const std::string& device) {
  Session session(tiny_qwen(options), {.device = device});
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    const NamedTensors outputs = session.run("train_step", tiny_batch(step % 4));
    const auto number = [&](const char* name) { return outputs.at(name).to_doubles()[0]; };
    curve.losses.push_back(number("loss"));
    if (!outputs.contains("loss_scale")) continue;
    curve.scales.push_back(number("loss_scale"));
    curve.skipped.push_back(static_cast<int64_t>(number("skipped_steps")));
  }
  return curve;
}

constexpr int kSteps = 30;

TEST_P(LowPrecisionTraining, LowPrecisionFollowsTheCurveOfF32) {
  const Curve exact = train_tiny("adamw,lr=1e-3,clip=1.0", kSteps, GetParam());
  EXPECT_LT(exact.losses.back(), 0.9 * exact.losses.front()) << "it learns";
  for (const char* precision : {"f16", "bf16"}) {
    const Curve low =
        train_tiny(std::string("adamw,lr=1e-3,clip=1.0,precision=") + precision, kSteps, GetParam());
    for (size_t i = 0; i < exact.losses.size(); ++i)
      EXPECT_NEAR(low.losses[i], exact.losses[i], 0.01 * exact.losses[i]) << precision << ", step " << i;
    for (int64_t skipped : low.skipped) EXPECT_EQ(skipped, 0) << precision;
  }
}

// A scale of 2^30 certainly overflows f16: steps are skipped and the scale is halved until one fits. Then the curve
// equals that of a run that began with this scale.
TEST_P(LowPrecisionTraining, TheLossScaleBacksOffOnTheDevice) {
  const auto model = tiny_qwen("adamw,lr=1e-3,clip=1.0,precision=f16");
  Session session(model, {.device = GetParam()});
  const TensorType scale = model->state(model->find_state("optimizer.loss_scale")).type;
  ASSERT_EQ(scale.numel(), 1);
  session.set_state("optimizer.loss_scale", Tensor::of<float>({}, {std::ldexp(1.0F, 30)}));
  int64_t skipped = 0;
  double last_scale = 0, first_loss = 0, last_loss = 0;
  for (int step = 0; step < 60; ++step) {
    const NamedTensors outputs = session.run("train_step", tiny_batch(step % 4));
    const auto number = [&](const char* name) { return outputs.at(name).to_doubles()[0]; };
    if (step == 0) {
      EXPECT_EQ(number("loss_scale"), std::ldexp(1.0, 30));
      EXPECT_EQ(number("skipped_steps"), 1);
      first_loss = number("loss");
    }
    skipped += number("skipped_steps") > 0;
    last_scale = number("loss_scale");
    last_loss = number("loss");
    EXPECT_TRUE(std::isfinite(last_loss));
  }
  EXPECT_GE(skipped, 5);
  EXPECT_LE(skipped, 30);
  EXPECT_EQ(last_scale, std::ldexp(1.0, 30 - static_cast<int>(skipped)));
  EXPECT_LT(last_loss, 0.95 * first_loss) << "it learns once the scale fits";
}

// The weight itself is too large for f16, so no scale helps.
TEST_P(LowPrecisionTraining, StepsThatAreAllSkippedStopWithTheNode) {
  const std::shared_ptr<Model> model = overflowing_f16_model();
  ThreeRows source;
  Session session(model, {.device = GetParam()});
  expect_error([&] { train(session, source, {.steps = 20, .max_skipped_steps = 5}); },
               {"5 steps in a row", "up to step 5", "an infinity", "--keep-f32"});
}

INSTANTIATE_TEST_SUITE_P(On, LowPrecisionTraining, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace genesis
