// Tests sessions that keep the weights of bf16 training as halves: training equals that with casts, and other readers
// get f32. On the CPU, where it must be requested, and on a GPU; the latter is skipped without one.
#include <bit>
#include <cmath>
#include <filesystem>

#include "executor/inspector.h"
#include "executor/session.h"
#include "executor/training/checkpoint.h"
#include "schema/graph/text.h"
#include "schema/ops/nn/optimizer.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

class WeightHalves : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cuda" && !why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  }
  Session session(std::shared_ptr<const Model> model, bool split = true) const {
    return Session(std::move(model), {.device = GetParam(), .weight_halves = split});
  }
};

// gate and up become one product. The norm's weight is read in f32 and stays one state.
constexpr const char* kText = R"(
state @norm: f32[16] parameter trainable
state @gate: f32[24,16] parameter trainable
state @up: f32[24,16] parameter trainable
state @down: f32[16,24] parameter trainable
state @bias: f32[16] parameter trainable
entry loss(x: f32[batch,16], y: f32[batch,16]) {
  %n = rms_norm(x, @norm) {has_weight=true}
  %g = linear(%n, @gate)
  %u = linear(%n, @up)
  %s = swiglu(%g, %u)
  %o = linear(%s, @down, @bias)
  %error = sub(%o, y)
  %squares = square(%error)
  %loss = mean(%squares)
  return loss = %loss
}
)";
constexpr const char* kWeights[] = {"norm", "gate", "up", "down", "bias"};
constexpr const char* kTraining = "adamw,lr=1e-2,clip=1.0,weight_decay=0.1,no_decay=1d,precision=bf16";

Tensor waves(const TensorType& type, double by, double speed) {
  std::vector<float> values(static_cast<size_t>(type.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(by * std::sin(speed * static_cast<double>(i + 1)));
  return Tensor::copy_of(type, values.data());
}

std::shared_ptr<Model> small_model(const std::string& training = kTraining) {
  std::shared_ptr<Model> model = parse_text(kText);
  double speed = 1.3;
  for (const char* name : kWeights) {
    const int32_t state = model->find_state(name);
    model->set_initial(state, waves(model->state(state).type, 0.4, speed += 0.1));
  }
  passes::add_train_step(*model, passes::parse_train_options(training));
  return model;
}

NamedTensors batch(int step) {
  const TensorType type{DType::f32, Shape::of({8, 16})};
  return {{"x", waves(type, 1.0, 0.7 + 0.01 * step)}, {"y", waves(type, 0.5, 0.3 + 0.01 * step)}};
}

double run_entry(Session& session, const std::string& entry, int step) {
  return session.run(entry, batch(step)).at("loss").to_doubles()[0];
}

std::vector<double> state(const Session& session, const std::string& name) {
  return session.state(name).to_doubles();
}

bool is_between_two_bf16(double weight) {
  return (std::bit_cast<uint32_t>(static_cast<float>(weight)) & 0xffffu) == 0x8000u;
}

int steps_of(Session& session, const std::string& entry, std::string_view op) {
  int count = 0;
  for (const Step& step : session.plan(entry, batch(0)).steps) count += step.op->name() == op;
  return count;
}

int halved_updates(Session& session) {
  int count = 0;
  for (const Step& step : session.plan("train_step", batch(0)).steps)
    if (step.op->name() == "adam_update")
      count += from_attributes<ops::AdamUpdate>(step.attributes).is_halved();
  return count;
}

// A cast rounds ties to even and halves do not; no weight here is a tie.
TEST_P(WeightHalves, TrainBitForBitAsWithCasts) {
  const auto model = small_model();
  Session casts = session(model, false), halves = session(model);
  for (int step = 0; step < 12; ++step) {
    EXPECT_EQ(run_entry(halves, "train_step", step), run_entry(casts, "train_step", step)) << step;
    for (const State& row : model->states()) {
      const std::vector<double> expected = state(casts, row.name);
      ASSERT_EQ(state(halves, row.name), expected) << row.name << " after step " << step;
      if (row.role == StateRole::kParameter) {
        ASSERT_TRUE(std::none_of(expected.begin(), expected.end(), is_between_two_bf16)) << "another example";
      }
    }
  }
  EXPECT_EQ(steps_of(halves, "train_step", "cast_group"), 0);
  EXPECT_EQ(steps_of(halves, "train_step", "concat"), 0);
  EXPECT_EQ(halved_updates(halves), GetParam() == "cuda" ? 1 : 3);
  EXPECT_LT(Inspector(halves).memory().arena_bytes, Inspector(casts).memory().arena_bytes);
  EXPECT_EQ(Inspector(halves).memory().state_bytes, Inspector(casts).memory().state_bytes);
}

// Without clipping each update is a node of its own. Sums over micro-batches are f32.
TEST_P(WeightHalves, TrainAsWithCastsByOtherOptions) {
  for (const char* options : {"adamw,lr=1e-2,precision=bf16", "adam,lr=1e-2,accumulate=2,precision=bf16"}) {
    const auto model = small_model(options);
    Session casts = session(model, false), halves = session(model);
    for (int step = 0; step < 4; ++step)
      EXPECT_EQ(run_entry(halves, "train_step", step), run_entry(casts, "train_step", step)) << options;
    for (const char* name : kWeights) EXPECT_EQ(state(halves, name), state(casts, name)) << options;
    EXPECT_GT(halved_updates(halves), 0) << options;
    EXPECT_TRUE(halves.plan("train_step", batch(0)).state_copies.empty()) << "updated in place";
  }
}

// Reads the weights once in f32 before they are split, and then as f32 joined from halves.
TEST_P(WeightHalves, GiveF32ToOtherEntryPoints) {
  const auto model = small_model();
  Session casts = session(model, false), halves = session(model);
  EXPECT_EQ(run_entry(halves, "loss", 0), run_entry(casts, "loss", 0));
  EXPECT_EQ(steps_of(halves, "loss", "join_halves"), 0) << "nobody trains here yet";
  for (Session* each : {&casts, &halves}) {
    each->set_state("up", waves(model->state(model->find_state("up")).type, 0.3, 2.1));
    run_entry(*each, "train_step", 1);
  }
  EXPECT_EQ(state(halves, "up"), state(casts, "up")) << "set before the split";
  EXPECT_EQ(run_entry(halves, "loss", 2), run_entry(casts, "loss", 2));
  EXPECT_EQ(steps_of(halves, "loss", "join_halves"), 4);
  EXPECT_EQ(run_entry(halves, "train_step", 3), run_entry(casts, "train_step", 3));
}

// The output of a started run may be in a state that is split before the output is read.
TEST_P(WeightHalves, LeaveAStartedRunItsResult) {
  const auto model = small_model();
  Graph& look = model->add_entry("look");
  look.add_output("up", look.state(model->find_state("up")));
  Session halves = session(model);
  halves.start("look");
  halves.plan("train_step", batch(0));
  EXPECT_EQ(halves.result().at("up").to_doubles(),
            model->state(model->find_state("up")).initial.to_doubles());
  run_entry(halves, "train_step", 0);
  EXPECT_EQ(halves.run("look").at("up").to_doubles(), state(halves, "up"));
}

TEST_P(WeightHalves, AreSetAndResetAsF32) {
  const auto model = small_model();
  Session halves = session(model);
  const std::vector<double> first = state(halves, "gate");
  const double loss = run_entry(halves, "train_step", 0);
  EXPECT_NE(state(halves, "gate"), first);
  const Tensor given = waves(model->state(model->find_state("gate")).type, 0.2, 3.3);
  halves.set_state("gate", given);
  EXPECT_EQ(state(halves, "gate"), given.to_doubles());
  EXPECT_NE(state(halves, "up"), state(halves, "gate")) << "its neighbor is left alone";
  halves.reset_states(StateRole::kParameter);
  halves.reset_states(StateRole::kOptimizer);
  halves.reset_states(StateRole::kStep);
  EXPECT_EQ(state(halves, "gate"), first);
  EXPECT_EQ(run_entry(halves, "train_step", 0), loss);
}

TEST_P(WeightHalves, ResumeFromACheckpointBitForBit) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("genesis_halves_" + GetParam() + "_" + std::to_string(::getpid()));
  const auto model = small_model();
  Session straight = session(model);
  for (int step = 0; step < 3; ++step) run_entry(straight, "train_step", step);
  Session resumed = session(load_checkpoint(save_checkpoint(straight, folder, 3, 1)));
  std::filesystem::remove_all(folder);
  for (int step = 3; step < 6; ++step)
    EXPECT_EQ(run_entry(resumed, "train_step", step), run_entry(straight, "train_step", step));
  for (const State& row : model->states()) EXPECT_EQ(state(resumed, row.name), state(straight, row.name));
}

TEST_P(WeightHalves, AreNamedWhenTheyAreNotFinite) {
  const auto model = small_model();
  Session halves = session(model);
  run_entry(halves, "train_step", 0);
  std::vector<double> bad = state(halves, "up");
  std::vector<float> values(bad.begin(), bad.end());
  values[5] = NAN;
  halves.set_state("up", Tensor::copy_of(model->state(model->find_state("up")).type, values.data()));
  const std::string told = Inspector(halves).explain_nonfinite("train_step", batch(0));
  EXPECT_NE(told.find("state 'up' held NaN at element 5"), std::string::npos) << told;
}

TEST_P(WeightHalves, AreNotMadeWhereThatIsSwitchedOff) {
  Session off(small_model(),
              {.device = GetParam(), .disabled = {"use_weight_halves"}, .weight_halves = true});
  EXPECT_EQ(halved_updates(off), 0);
  Session f16 = session(small_model("adamw,clip=1.0,precision=f16"));
  EXPECT_EQ(halved_updates(f16), 0);
  Session f32 = session(small_model("adamw,clip=1.0"));
  EXPECT_EQ(halved_updates(f32), 0);
}

// A language model trains and then generates in the same session. The result equals that of a session loaded with the
// learned values.
TEST_P(WeightHalves, DecodeAfterTraining) {
  Session trained = session(tiny_qwen("adamw,lr=1e-3,clip=1.0,precision=bf16"));
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    last = trained.run("train_step", tiny_batch(step % 4)).at("loss").to_doubles()[0];
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.9 * first);
  Session loaded = session(std::shared_ptr<const Model>(snapshot(trained)));
  const Tensor prompt = Tensor::of<int64_t>({1, 5}, {7, 14, 21, 28, 35}),
               start = Tensor::of<int64_t>({1}, {0}), length = Tensor::of<int64_t>({1}, {5});
  const auto logits = [&](Session& session) {
    session.run("prefill", {{"tokens", prompt}, {"position", start}, {"length", length}});
    return session
        .run("decode",
             {{"tokens", Tensor::of<int64_t>({1, 1}, {42})}, {"position", Tensor::of<int64_t>({1}, {5})}})
        .at("logits")
        .to_doubles();
  };
  const std::vector<double> here = logits(trained), there = logits(loaded);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(On, WeightHalves, ::testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace genesis
