// Times the inference of ResNet-50 (batch norms with running statistics, images of 224 x 224), or with `train` a training step.
// Its peer on a CPU is bench/peers/onnxruntime_resnet.py, on a GPU bench/peers/torch_resnet.py. The best of some runs is printed: in
// processor time with one thread of a CPU, so that a busy machine can be used, by the device's clock on a GPU, else in wall time.
// With TOP it also prints the ops and the nodes that took longest, one by one, with their kernels.
//
//   build/bench/bench_resnet [THREADS [BATCH [DEVICE [DTYPE [infer|train [TOP]]]]]]    1 1 cpu f32 infer 0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "builder/genesis.h"
#include "builder/image_layers.h"
#include "executor/inspection/profile_table.h"
#include "executor/inspector.h"
#include "executor/session.h"
#include "passes/precision/cast_precision.h"
#include "passes/training/train_step.h"

namespace genesis {
namespace {

constexpr int64_t kExpansion = 4, kBlocks[] = {3, 4, 6, 3};

// A convolution and its batch norm.
struct Normed {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;

  Normed(const Scope& s, const std::string& conv_name, const std::string& norm_name, int64_t in, int64_t out,
         int64_t window, int64_t stride)
      : conv(s / conv_name, in, out, {window},
             {.conv = {.stride = {stride}, .padding = {window / 2}}, .bias = false}),
        norm(s / norm_name, out) {}
  Value operator()(Value x) const { return norm(conv(x)); }
};

struct Bottleneck {
  Normed first, second, third;
  std::optional<Normed> shortcut;

  Bottleneck(const Scope& s, int64_t in, int64_t width, int64_t stride)
      : first(s, "conv1", "bn1", in, width, 1, 1),
        second(s, "conv2", "bn2", width, width, 3, stride),
        third(s, "conv3", "bn3", width, kExpansion * width, 1, 1) {
    if (stride != 1 || in != kExpansion * width)
      shortcut.emplace(s / "downsample", "0", "1", in, kExpansion * width, 1, stride);
  }
  Value operator()(Value x) const {
    const Value y = third(relu(second(relu(first(x)))));
    return relu(y + (shortcut ? (*shortcut)(x) : x));
  }
};

struct Case {
  int threads = 1;
  int64_t batch = 1;
  std::string device = "cpu";
  DType dtype = DType::f32;
  bool trains = false;
  int top = 0;

  std::string entry() const { return trains ? "train_step" : "forward"; }
};

Value resnet(const Scope& root, Value x) {
  x = relu(Normed(root, "conv1", "bn1", 3, 64, 7, 2)(x));
  x = nn::MaxPool2d{{.window = {3}, .stride = {2}, .padding = {1}}}(x);
  int64_t in = 64, width = 64;
  for (size_t layer = 0; layer < std::size(kBlocks); ++layer, width *= 2)
    for (int64_t i = 0; i < kBlocks[layer]; ++i, in = kExpansion * width)
      x = Bottleneck(root / fmt::format("layer{}", layer + 1) / i, in, width, i == 0 && layer > 0 ? 2 : 1)(x);
  return nn::Linear(root / "fc", in, 1000)(flatten(adaptive_avg_pool(x, {1, 1}), 1));
}

std::shared_ptr<const Model> make_model(const Case& c) {
  auto model = std::make_shared<Model>();
  GraphBuilder g(*model, c.trains ? "loss" : "forward", c.trains ? Mode::kTrain : Mode::kEval);
  const Value y = resnet(Scope(*model, 1), g.input("x", DType::f32, {c.batch, 3, 224, 224}));
  if (!c.trains) {
    g.output("logits", y);
    if (c.dtype != DType::f32) return passes::cast_precision(*model, c.dtype);
    return model;
  }
  g.output("loss", cross_entropy(y, g.input("target", DType::i64, {c.batch})));
  passes::add_training(*model, {.optimizer = optim::SGD{.lr = 0.01, .momentum = 0.9},
                                .precision = c.dtype == DType::f32 ? passes::TrainPrecision::kF32
                                                                   : passes::TrainPrecision::kBf16});
  return model;
}

double seconds(bool of_processor) {
  if (of_processor) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double best_seconds(Session& session, const Case& c, const NamedTensors& inputs) {
  constexpr int kRuns = 12;
  const bool of_processor = c.threads == 1 && c.device == "cpu";
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const double start = seconds(of_processor);
    double taken = 0;
    if (c.device == "cpu") {
      session.run(c.entry(), inputs);
      taken = seconds(of_processor) - start;
    } else {
      taken = Inspector(session).seconds_per_run(c.entry(), inputs, 10);
    }
    best = i == 0 ? taken : std::min(best, taken);
  }
  return best;
}

void print_rows(const char* what, const std::vector<ProfileRow>& rows, int top) {
  fmt::print("{}:\n", what);
  for (size_t i = 0; i < std::min(rows.size(), static_cast<size_t>(top)); ++i) {
    const ProfileRow& row = rows[i];
    std::string kernels;
    for (const auto& [kernel, count] : row.kernels) kernels += fmt::format(" {} x {}", count, kernel);
    fmt::print("{:9.1f} us {:7.0f} GB/s {:8.0f} GFLOP/s  {} {}{}\n", row.us, row.gbps(), row.gflops(), row.op,
               row.name, kernels);
  }
}

void print_profile(Session& session, const Case& c, const NamedTensors& inputs) {
  const Plan plan = session.plan(c.entry(), {});
  StepTimes times{.us = {}, .median_us = {}, .kernels = Inspector(session).kernels(c.entry(), inputs)};
  for (const StepTiming& step : Inspector(session).profile(c.entry(), inputs))
    times.us.push_back(step.end_us - step.start_us);
  times.median_us = times.us;
  for (const bool by_op : {true, false})
    print_rows(by_op ? "by op" : "by node", profile_table(plan, times, {}, by_op), c.top);
}

void run(const Case& c) {
  Session session(make_model(c), {.device = c.device, .threads = c.threads});
  NamedTensors inputs = {{"x", Tensor::rand({c.batch, 3, 224, 224}, /*seed=*/2)}};
  if (c.trains) inputs.emplace("target", Tensor::zeros({DType::i64, {c.batch}}));
  const double best = best_seconds(session, c, inputs);
  fmt::print("ResNet-50, {}, {}, {}, {} thread(s), batch {}: {:.3f} ms, arena {:.2f} GB\n", c.entry(),
             c.device, name_of(c.dtype), c.threads, c.batch, best * 1e3,
             static_cast<double>(Inspector(session).memory().arena_bytes) / 1e9);
  if (c.top > 0) print_profile(session, c, inputs);
}

}  // namespace
}  // namespace genesis

int main(int argc, char** argv) {
  const auto word = [&](int i, const char* otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  genesis::run({.threads = std::max(std::atoi(word(1, "1").c_str()), 1),
                .batch = std::max(std::atoi(word(2, "1").c_str()), 1),
                .device = word(3, "cpu"),
                .dtype = genesis::parse_dtype(word(4, "f32")).value_or(genesis::DType::f32),
                .trains = word(5, "infer") == "train",
                .top = std::atoi(word(6, "0").c_str())});
}
