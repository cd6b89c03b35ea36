// Tests training steps against plain loops: optimizers, clipping, accumulation, schedules, chained states.
#include "passes/training/train_step.h"

#include <cmath>
#include <functional>

#include "executor/session.h"
#include "executor/snapshot.h"
#include "passes/training/autodiff.h"
#include "passes/training/evaluation.h"
#include "passes/training/weight_average.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

// loss = mean over the batch of (x w + b - y)^2, with two features per row.
constexpr const char* kRegression = R"(
state @w: f32[2] parameter trainable = (0.5, -1.0)
state @b: f32[] parameter trainable = (0.25)
entry loss(x: f32[batch,2], y: f32[batch]) {
  %products = mul(x, @w)
  %sums = sum(%products) {axes=(1)}
  %shifted = add(%sums, @b)
  %error = sub(%shifted, y)
  %squares = square(%error)
  %loss = mean(%squares)
  return loss = %loss
}
)";

const std::vector<float> kX = {1, 2, -1, 0.5, 3, -2, 0.25, 1, -0.5, -1.5, 2, 2, 1.5, -1, 0, 1};
const std::vector<float> kY = {1, -1, 0.5, 2, -2, 0, 1.5, -0.5};

NamedTensors data() { return {{"x", Tensor::of<float>({8, 2}, kX)}, {"y", Tensor::of<float>({8}, kY)}}; }

struct Point {
  double loss;
  std::vector<double> gradient;  // by w[0], w[1], b
};

Point at(const std::vector<double>& p) {
  Point point{0, {0, 0, 0}};
  for (size_t i = 0; i < 8; ++i) {
    const double x0 = kX[2 * i], x1 = kX[2 * i + 1], error = x0 * p[0] + x1 * p[1] + p[2] - kY[i];
    point.loss += error * error / 8;
    point.gradient[0] += 2 * error * x0 / 8;
    point.gradient[1] += 2 * error * x1 / 8;
    point.gradient[2] += 2 * error / 8;
  }
  return point;
}

// Updates one parameter element: value, gradient, its two moments; step counts from 1.
using Update = std::function<void(double& p, double g, double& m, double& v, int step)>;

void expect_steps(const std::string& options, const Update& update, double clip = 0, double clip_value = 0) {
  std::shared_ptr<Model> model = parse_text(kRegression);
  add_train_step(*model, parse_train_options(options));
  Session session(model);
  std::vector<double> p = {0.5, -1.0, 0.25}, m(3), v(3);
  for (int step = 1; step <= 6; ++step) {
    Point point = at(p);
    double norm = 0;
    for (double& g : point.gradient) {
      if (clip_value > 0) g = std::clamp(g, -clip_value, clip_value);
      norm += g * g;
    }
    norm = std::sqrt(norm);
    const NamedTensors out = session.run("train_step", data());
    EXPECT_NEAR(out.at("loss").to_doubles()[0], point.loss, 2e-6 * std::max(1.0, point.loss))
        << options << " " << step;
    EXPECT_NEAR(out.at("grad_norm").to_doubles()[0], norm, 1e-5 * std::max(1.0, norm))
        << options << " " << step;
    const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
    for (size_t i = 0; i < 3; ++i) update(p[i], point.gradient[i] * scale, m[i], v[i], step);
  }
  const std::vector<double> w = session.state("w").to_doubles();
  EXPECT_NEAR(w[0], p[0], 1e-5) << options;
  EXPECT_NEAR(w[1], p[1], 1e-5) << options;
  EXPECT_NEAR(session.state("b").to_doubles()[0], p[2], 1e-5) << options;
  EXPECT_EQ(session.state("optimizer.step").as<int64_t>()[0], 6);
}

Update sgd(double lr, double decay = 0) {
  return [=](double& p, double g, double&, double&, int) { p -= lr * (g + decay * p); };
}

TEST(TrainStepResults, Sgd) {
  expect_steps("sgd,lr=0.05", sgd(0.05));
  expect_steps("sgd,lr=0.05,weight_decay=0.1", sgd(0.05, 0.1));
  expect_steps("sgd,lr=0.05,momentum=0.9", [](double& p, double g, double& m, double&, int step) {
    m = step == 1 ? g : 0.9 * m + g;
    p -= 0.05 * m;
  });
}

Update adam(double lr, double decay, bool decoupled) {
  return [=](double& p, double g, double& m, double& v, int step) {
    if (decoupled)
      p -= lr * decay * p;
    else
      g += decay * p;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= lr * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
  };
}

TEST(TrainStepResults, Adam) {
  expect_steps("adam,lr=0.1", adam(0.1, 0, false));
  expect_steps("adam,lr=0.1,weight_decay=0.3", adam(0.1, 0.3, false));
  expect_steps("adamw,lr=0.1", adam(0.1, 0.01, true));
  expect_steps("adamw,lr=0.1,weight_decay=0.5", adam(0.1, 0.5, true));
}

TEST(TrainStepResults, Lion) {
  expect_steps("lion,lr=0.01,weight_decay=0.1", [](double& p, double g, double& m, double&, int) {
    const double c = 0.9 * m + 0.1 * g;
    p -= 0.01 * ((c > 0) - (c < 0) + 0.1 * p);
    m = 0.99 * m + 0.01 * g;
  });
}

TEST(TrainStepResults, Clipping) {
  expect_steps("sgd,lr=0.05,clip=0.5", sgd(0.05), 0.5);
  expect_steps("sgd,lr=0.05,clip=100", sgd(0.05), 100);
  expect_steps("sgd,lr=0.05,clip_value=0.3", sgd(0.05), 0, 0.3);
  expect_steps("adamw,lr=0.1,clip=0.5,clip_value=0.4", adam(0.1, 0.01, true), 0.5, 0.4);
}

// Tests rate and decay of a group against loops, which recognize w[0], w[1] and b by their initial values.
TEST(TrainStepResults, ParameterGroups) {
  for (const char* more : {"", ",clip=100"}) {
    std::shared_ptr<Model> grouped = parse_text(kRegression), plain = parse_text(kRegression);
    add_train_step(
        *grouped, parse_train_options(
                      std::string("adamw,lr=0.1,weight_decay=0.5,group={b:lr=0.25x,weight_decay=0}") + more));
    add_train_step(*plain, parse_train_options(std::string("adamw,lr=0.025,weight_decay=0,freeze=w") + more));
    Session with_groups(grouped), alone(plain);
    with_groups.run("train_step", data());
    alone.run("train_step", data());
    EXPECT_EQ(with_groups.state("b").to_doubles(), alone.state("b").to_doubles());
    std::vector<double> w = {0.5, -1.0};
    const std::vector<double> gradient = at({0.5, -1.0, 0.25}).gradient;
    for (size_t i = 0; i < 2; ++i) {
      double m = 0, v = 0;
      adam(0.1, 0.5, true)(w[i], gradient[i], m, v, 1);
      EXPECT_NEAR(with_groups.state("w").to_doubles()[i], w[i], 1e-6);
    }
  }
}

// Averages begin as the weights, and the evaluation reads them.
TEST(TrainStepResults, AveragesOfTheWeights) {
  for (const double warmup : {0.0, 10.0}) {
    std::shared_ptr<Model> model = parse_text(kRegression);
    add_train_step(*model, {.optimizer = optim::SGD{.lr = 0.05}, .ema = 0.75, .ema_warmup = warmup});
    add_evaluation(*model);
    Session session(model);
    std::vector<double> p = {0.5, -1.0, 0.25}, average = p;
    for (int t = 0; t < 6; ++t) {
      const Point point = at(p);
      const double decay = warmup == 0 ? 0.75 : std::min(0.75, (1.0 + t) / (warmup + t));
      for (size_t i = 0; i < 3; ++i) {
        p[i] -= 0.05 * point.gradient[i];
        average[i] = decay * average[i] + (1 - decay) * p[i];
      }
      session.run("train_step", data());
    }
    EXPECT_NEAR(session.state("ema.w").to_doubles()[1], average[1], 1e-6);
    EXPECT_NEAR(session.state("ema.b").to_doubles()[0], average[2], 1e-6);
    EXPECT_NEAR(session.run(kEvaluationEntry, data()).at("loss").to_doubles()[0], at(average).loss, 1e-5);
    const auto served = with_values(session);
    EXPECT_EQ(take_averages(*served), 2);
    EXPECT_EQ(served->state(served->find_state("w")).initial.to_doubles(),
              session.state("ema.w").to_doubles());
  }
}

TEST(TrainStepResults, AnEvaluationHasNoDropoutAndChangesNothing) {
  std::shared_ptr<Model> model = parse_text(R"(
state @rng: i64[2] random = (42, 0)
state @w: f32[] parameter trainable = (1.0)
state @sum: f32[] buffer
entry loss(x: f32[batch]) {
  %dropped = dropout(@rng, x) {p=0.5}
  %scaled = mul(%dropped, @w)
  %loss = sum(%scaled)
  %next = add(@sum, %loss)
  return loss = %loss
  update @sum = %next
}
)");
  EXPECT_THROW(add_evaluation(*model), Error) << "there is no training step";
  add_train_step(*model, parse_train_options("sgd,lr=0,accumulate=2"));
  add_evaluation(*model);
  add_evaluation(*model);
  Session session(model);
  const NamedTensors x = {{"x", Tensor::of<float>({3}, std::vector<float>{1, 2, 4})}};
  EXPECT_EQ(session.run(kEvaluationEntry, x).at("loss").to_doubles()[0], 7);
  EXPECT_EQ(session.state("sum").to_doubles()[0], 0);
  const auto report = [&](float loss) {
    const NamedTensors out = session.run(kEvaluatedEntry, {{"loss", Tensor::scalar(loss)}});
    return std::pair(out.at("best").to_doubles()[0], out.at("since_best").item<int64_t>());
  };
  EXPECT_EQ(report(3), std::pair(3.0, int64_t{0}));
  EXPECT_EQ(report(3), std::pair(3.0, int64_t{1}));
  EXPECT_EQ(report(std::nanf("")), std::pair(3.0, int64_t{2}));
  EXPECT_EQ(report(2), std::pair(2.0, int64_t{0}));
}

// The mean over equal micro-batches is the mean over the batch.
TEST(TrainStepResults, Accumulation) {
  expect_steps("sgd,lr=0.05,accumulate=4", sgd(0.05));
  expect_steps("adamw,lr=0.1,accumulate=8,clip=0.5", adam(0.1, 0.01, true), 0.5);
}

// Has one feature, and every kind of output besides a loss: a mean, a count, a boolean, and a value per row.
constexpr const char* kOutputs = R"(
state @w: f32[] parameter trainable = (0.5)
state @limit: f32[] buffer = (0.1)
entry loss(x: f32[batch], y: f32[batch]) {
  %guess = mul(x, @w)
  %error = sub(%guess, y)
  %squares = square(%error)
  %loss = mean(%squares)
  %right = lt(%squares, @limit)
  %ones = cast(%right) {dtype=f32}
  %accuracy = mean(%ones)
  %counts = cast(%right) {dtype=i64}
  %count = sum(%counts)
  %any = any(%right)
  return loss = %loss
  return accuracy = %accuracy
  return right = %count
  return any_right = %any
  return guess = %guess
}
)";

TEST(TrainStepResults, OutputsBesideTheLossAreThoseOfTheWholeBatch) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, y = {0.6f, 9, 9, 9, 2.4f, 2.9f, 9, 9};
  for (const int64_t parts : {1, 2, 4}) {
    std::shared_ptr<Model> model = parse_text(kOutputs);
    add_train_step(*model, parse_train_options(fmt::format("sgd,lr=0,accumulate={}", parts)));
    add_evaluation(*model);
    Session session(model);
    const NamedTensors batch = {{"x", Tensor::of<float>({8}, x)}, {"y", Tensor::of<float>({8}, y)}};
    const NamedTensors step = session.run("train_step", batch), measured = session.run("evaluate", batch);
    EXPECT_FLOAT_EQ(step.at("accuracy").item<float>(), 0.375f) << parts;
    EXPECT_EQ(step.at("right").item<int64_t>(), 3);
    EXPECT_TRUE(step.at("any_right").item<bool>());
    const std::vector<double> guesses = step.at("guess").to_doubles();
    EXPECT_EQ(guesses, (std::vector<double>{0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4}));
    EXPECT_FLOAT_EQ(measured.at("accuracy").item<double>(), 0.375);
    EXPECT_EQ(measured.at("right").item<int64_t>(), 3);
    EXPECT_EQ(measured.at("any_right").item<int64_t>(), 1);
    EXPECT_FALSE(measured.contains("guess")) << "an evaluation has numbers alone";
  }
}

TEST(TrainStepResults, TheScheduleFollowsTheStepState) {
  std::shared_ptr<Model> model = parse_text(kRegression);
  add_train_step(*model, parse_train_options("sgd,lr=0.4,schedule=step,step_size=2,gamma=0.5"));
  Session session(model);
  std::vector<double> rates;
  for (int i = 0; i < 4; ++i) rates.push_back(session.run("train_step", data()).at("lr").to_doubles()[0]);
  EXPECT_FLOAT_EQ(static_cast<float>(rates[1]), 0.4f);
  EXPECT_FLOAT_EQ(static_cast<float>(rates[2]), 0.2f);
  session.set_state("optimizer.step", Tensor::scalar<int64_t>(6));
  EXPECT_FLOAT_EQ(static_cast<float>(session.run("train_step", data()).at("lr").to_doubles()[0]), 0.05f);
}

TEST(TrainStepResults, FrozenParametersStay) {
  std::shared_ptr<Model> model = parse_text(kRegression);
  add_train_step(*model, parse_train_options("sgd,lr=0.1,freeze=w"));
  Session session(model);
  session.run("train_step", data());
  EXPECT_EQ(session.state("w").to_doubles(), (std::vector<double>{0.5, -1.0}));
  EXPECT_NEAR(session.state("b").to_doubles()[0], 0.25 - 0.1 * at({0.5, -1.0, 0.25}).gradient[2], 1e-6);
}

// A running maximum passes through the micro-batches of a step, and on to the next step.
TEST(TrainStepResults, StatesOfTheLossAreChained) {
  std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[] parameter trainable = (1.0)
state @sum: f32[] buffer
entry loss(x: f32[batch]) {
  %part = sum(x)
  %next = add(@sum, %part)
  %scaled = mul(x, @w)
  %loss = mean(%scaled)
  return loss = %loss
  update @sum = %next
}
)");
  add_train_step(*model, parse_train_options("sgd,lr=0.1,accumulate=3"));
  Session session(model);
  const NamedTensors x = {{"x", Tensor::of<float>({6}, std::vector<float>{1, 2, 3, 4, 5, 6})}};
  session.run("train_step", x);
  EXPECT_EQ(session.state("sum").to_doubles()[0], 21);
  session.run("train_step", x);
  EXPECT_EQ(session.state("sum").to_doubles()[0], 42);
}

// Every micro-batch draws its own numbers, and the next step draws others: the RNG state advances by itself.
TEST(TrainStepResults, TheRandomStateMovesOn) {
  std::shared_ptr<Model> model = parse_text(R"(
state @rng: i64[2] random = (42, 0)
state @w: f32[] parameter trainable = (1.0)
entry loss(x: f32[batch]) {
  %dropped = dropout(@rng, x) {p=0.5}
  %scaled = mul(%dropped, @w)
  %loss = sum(%scaled)
  return loss = %loss
}
)");
  add_train_step(*model, parse_train_options("sgd,lr=0,accumulate=2"));
  Session session(model);
  std::vector<float> x(128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(1 + i % 64);
  const auto step = [&] {
    return session.run("train_step", {{"x", Tensor::of<float>({128}, x)}}).at("loss").to_doubles()[0];
  };
  const double first = step();
  EXPECT_EQ(session.state("rng").to_doubles(), (std::vector<double>{42, 2}));
  EXPECT_NE(step(), first);
  session.set_state("rng", Tensor::of<int64_t>({2}, std::vector<int64_t>{42, 0}));
  EXPECT_EQ(step(), first);
}

}  // namespace
}  // namespace genesis::passes
