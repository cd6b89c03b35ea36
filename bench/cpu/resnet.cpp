// Times the inference of ResNet-50 (batch norms with running statistics, images of 224 x 224). Its peer on a CPU is
// bench/peers/onnxruntime_resnet.py. The best of some runs is printed, in processor time with one thread of a CPU, so that a busy
// machine can be used, else in wall time.
//
//   build/bench/bench_resnet [THREADS [BATCH [DEVICE [DTYPE]]]]    1 1 cpu f32
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "builder/genesis.h"
#include "builder/image_layers.h"
#include "executor/session.h"
#include "passes/precision/cast_precision.h"

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

std::shared_ptr<Model> make_resnet(int64_t batch) {
  auto model = std::make_shared<Model>();
  const Scope root(*model, 1);
  GraphBuilder g(*model, "forward");
  Value x = relu(Normed(root, "conv1", "bn1", 3, 64, 7, 2)(g.input("x", DType::f32, {batch, 3, 224, 224})));
  x = nn::MaxPool2d{{.window = {3}, .stride = {2}, .padding = {1}}}(x);
  int64_t in = 64, width = 64;
  for (size_t layer = 0; layer < std::size(kBlocks); ++layer, width *= 2)
    for (int64_t i = 0; i < kBlocks[layer]; ++i, in = kExpansion * width)
      x = Bottleneck(root / fmt::format("layer{}", layer + 1) / i, in, width, i == 0 && layer > 0 ? 2 : 1)(x);
  g.output("logits", nn::Linear(root / "fc", in, 1000)(flatten(adaptive_avg_pool(x, {1, 1}), 1)));
  return model;
}

double seconds(bool of_processor) {
  if (of_processor) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run(int threads, int64_t batch, const std::string& device, DType dtype) {
  constexpr int kRuns = 12;
  std::shared_ptr<const Model> model = make_resnet(batch);
  if (dtype != DType::f32) model = passes::cast_precision(*model, dtype);
  Session session(model, {.device = device, .threads = threads});
  const bool of_processor = threads == 1 && device == "cpu";
  const Tensor x = Tensor::rand({batch, 3, 224, 224}, /*seed=*/2);
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const double start = seconds(of_processor);
    session.run("forward", {{"x", x}});
    const double taken = seconds(of_processor) - start;
    best = i == 0 ? taken : std::min(best, taken);
  }
  fmt::print("ResNet-50, {}, {}, {} thread(s), batch {}: {:.2f} ms\n", device, name_of(dtype), threads, batch,
             best * 1e3);
}

}  // namespace
}  // namespace genesis

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1, batch = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto dtype = genesis::parse_dtype(argc > 4 ? argv[4] : "f32");
  genesis::run(std::max(threads, 1), std::max(batch, 1), argc > 3 ? argv[3] : "cpu",
               dtype.value_or(genesis::DType::f32));
}
