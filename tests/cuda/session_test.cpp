// Tests sessions on a GPU: they give the same results for the same models, and find the same mistakes. Skipped
// without a GPU.
#include <cmath>

#include "executor/inspector.h"
#include "executor/runtime/device.h"
#include "executor/runtime/device_tensors.h"
#include "executor/session.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/training/autodiff.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/cuda/alike.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/error_of.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

using Cuda = OnGpu;

constexpr const char* kModel = R"(
state @w: f32[2] parameter trainable = (2.0, -1.0)
state @count: f32[2] buffer = (10.0, 20.0)
state @table: f32[4,2] parameter trainable = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
entry scale(x: f32[batch,2], shift: f32[batch]) {
  %scaled = mul(x, @w)
  %row = sum(%scaled) {axes=(1)}
  %y = add(%row, shift)
  return y = %y
}
entry step(x: f32[2]) {
  %next = add(@count, x)
  return before = @count
  return after = %next
  update @count = %next
}
entry look(i: i64[n]) {
  %rows = embedding(i, @table)
  %safe = log(%rows)
  return rows = %rows
  return logs = %safe
}
)";

std::shared_ptr<Model> model() { return parse_text(kModel); }

TEST_F(Cuda, RunsWithSizesThatChange) {
  Session session(model(), {.device = "cuda"});
  for (int64_t batch : {3, 1, 1000, 0, 3}) {
    std::vector<float> x, shift;
    Doubles expected;
    for (int64_t i = 0; i < batch; ++i) {
      x.insert(x.end(), {static_cast<float>(i), 1.0f});
      shift.push_back(0.5f);
      expected.push_back(2.0 * static_cast<double>(i) - 0.5);
    }
    const auto outputs = session.run(
        "scale", {{"x", Tensor::of<float>({batch, 2}, x)}, {"shift", Tensor::of<float>({batch}, shift)}});
    EXPECT_EQ(outputs.at("y").to_doubles(), expected) << batch;
  }
}

// Memory of the GPU with values that a session reads in place.
struct OnDevice {
  OnDevice(Device& device, int64_t floats) : memory(device.allocate(4 * floats)) {}
  // Writes the values, `at` floats behind the beginning of the memory, and returns a tensor over them.
  Tensor tensor(Device& device, const std::vector<float>& values, int64_t at = 0) const {
    const auto count = static_cast<int64_t>(values.size());
    std::byte* data = memory.get() + 4 * at;
    device.upload(data, reinterpret_cast<const std::byte*>(values.data()), 4 * count);
    device.wait();
    return tensor_on_gpu({DType::f32, Shape({count})}, memory, data, 0);
  }
  DeviceMemory memory;
};

TEST_F(Cuda, InputsAndOutputsStayOnTheDevice) {
  const auto device = open_device("cuda", 0);
  Session session(model(), {.device = "cuda"});
  Inspector inspector(session);
  OutputBlocks blocks;
  Doubles expected{10, 20};
  std::vector<DeviceOutput> kept;
  // The address moves each time, until the session copies; an address that is not aligned is copied at once.
  for (int run = 0; run < 12; ++run) {
    const OnDevice memory(*device, 64);
    const float step = static_cast<float>(run) + 0.5F;
    const Tensor x = memory.tensor(*device, {step, -step}, run % 3 == 2 ? 1 : 0);
    ASSERT_EQ(gpu_of(x.data()), 0);
    const auto outputs = inspector.run_on_device("step", {{"x", x}}, blocks);
    expected[0] += step, expected[1] -= step;
    ASSERT_EQ(outputs.at(1).name, "after");
    EXPECT_EQ(read_tensor(*device, outputs[1].type, outputs[1].memory.get()).to_doubles(), expected) << run;
    if (run == 0) kept = outputs;
  }
  EXPECT_EQ(read_tensor(*device, kept[1].type, kept[1].memory.get()).to_doubles(), (Doubles{10.5, 19.5}))
      << "outputs that are held are not written again";
  const OnDevice memory(*device, 64);
  const Tensor x = memory.tensor(*device, {1, 1});
  EXPECT_EQ(session.run("step", {{"x", x}}).at("before").to_doubles(), expected);
  Session on_cpu(model(), {.device = "cpu"});
  EXPECT_NE(error_of([&] {
              on_cpu.run("step", {{"x", x}});
            }).find("is in the memory of GPU 0, but the session"),
            std::string::npos);
}

TEST_F(Cuda, StatesLiveOnTheDeviceAndMoveOn) {
  Session session(model(), {.device = "cuda"});
  const NamedTensors one{{"x", Tensor::of<float>({2}, {1, 1})}};
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(session.run("step", one).at("after").to_doubles(), (Doubles{11.0 + i, 21.0 + i}));
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{15, 25}));
  session.set_state("count", Tensor::of<float>({2}, {0, 1}));
  EXPECT_EQ(session.run("step", one).at("after").to_doubles(), (Doubles{1, 2}));
  session.reset_states(StateRole::kBuffer);
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{10, 20}));
}

TEST_F(Cuda, AnIndexOutOfRangeIsNamedAndTheSessionGoesOn) {
  Session session(model(), {.device = "cuda"});
  for (int i = 0; i < 2; ++i) {
    expect_error(
        [&] {
          session.run("look", {{"i", Tensor::of<int64_t>({2}, {1, 4})}});
        },
        {"rows", "4", "less than 4"});
    EXPECT_EQ(session.run("look", {{"i", Tensor::of<int64_t>({2}, {3, 0})}}).at("rows").to_doubles(),
              (Doubles{6, 7, 0, 1}));
  }
}

TEST_F(Cuda, TheFirstNodeThatIsNotFiniteIsNamed) {
  Session session(model(), {.device = "cuda", .find_nonfinite = true});
  expect_error(
      [&] {
        session.run("look", {{"i", Tensor::of<int64_t>({1}, {0})}});
      },
      {"safe", "infinity", "element 0"});
}

TEST_F(Cuda, ProfilesEveryStep) {
  Session session(model(), {.device = "cuda"});
  const NamedTensors inputs{{"i", Tensor::of<int64_t>({2}, {1, 2})}};
  const auto timings = Inspector(session).profile("look", inputs);
  ASSERT_EQ(timings.size(), session.plan("look", inputs).steps.size());
  for (const StepTiming& timing : timings) EXPECT_GE(timing.end_us, timing.start_us);
}

// The missing bytes are counted before anything is allocated or started.
TEST_F(Cuda, TooLittleMemoryIsFoundBeforeTheRun) {
  auto huge = std::make_shared<Model>();
  Graph& graph = huge->add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, {1}});
  graph.add_output("y", cumsum(expand(x, {int64_t{1} << 20, int64_t{1} << 20}), 0));
  Session session(huge, {.device = "cuda"});
  expect_error(
      [&] {
        session.run("main", {{"x", Tensor::of<float>({1}, {1})}});
      },
      {"too little memory", "TiB are needed", "are free", "largest tensors"});
}

// A vocabulary that is not a multiple of 8 is multiplied in two ranges. Its 16-bit gradients are compared with the
// CPU's.
TEST_F(Cuda, TheFusedLossTakesAnOddVocabulary) {
  constexpr int64_t kRows = 40, kHidden = 64, kClasses = 1031;
  std::vector<float> x(kRows * kHidden), w(kClasses * kHidden);
  std::vector<int64_t> t(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(3 * i));
  for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<int64_t>(i * 31 % kClasses);
  t[0] = kClasses - 1;
  const auto run = [&](const char* device) {
    return run_graph(
        {{"x", Tensor::of<float>({kRows, kHidden}, x)},
         {"w", Tensor::of<float>({kClasses, kHidden}, w)},
         {"t", Tensor::of<int64_t>({kRows}, t)}},
        [&](const Inputs& in) {
          const Value loss = linear_cross_entropy(cast(in[0], DType::bf16), cast(in[1], DType::bf16), in[2]);
          const auto d = passes::gradients(in.graph, loss, {in[0], in[1]});
          return std::vector<std::pair<std::string, Value>>{{"y", loss}, {"dx", d[0]}, {"dw", d[1]}};
        },
        {.device = device});
  };
  expect_alike(run("cuda"), run("cpu"));
}

// The model is wide enough that small steps run beside others. The kernels are the same, so the bits are too.
TEST_F(Cuda, ASecondStreamChangesNoBit) {
  const std::shared_ptr<Model> made = tiny_qwen("adamw,lr=1e-3,clip=1.0");
  Session two(made, {.device = "cuda"}), one(made, {.device = "cuda", .disabled = {"side_stream"}});
  const int64_t batch = 64, seq = 512;
  std::vector<int64_t> tokens(static_cast<size_t>(batch * seq));
  for (int step = 0; step < 5; ++step) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int64_t>((i * 7 + i / 61 + static_cast<size_t>(step)) % 61);
    const Tensor text = Tensor::of<int64_t>({batch, seq}, tokens);
    const NamedTensors inputs{{"tokens", text}, {"targets", text}};
    EXPECT_EQ(two.run("train_step", inputs).at("loss").to_doubles(),
              one.run("train_step", inputs).at("loss").to_doubles());
  }
  for (const State& state : made->states())
    EXPECT_EQ(two.state(state.name).to_doubles(), one.state(state.name).to_doubles()) << state.name;
}

// The timeline of a run has every step once, in order on its stream, and the run gives the same bits.
TEST_F(Cuda, ATimelineShowsTheStreams) {
  const std::shared_ptr<Model> made = tiny_qwen("adamw,lr=1e-3,clip=1.0");
  Session looked(made, {.device = "cuda"}), plain(made, {.device = "cuda"});
  std::vector<int64_t> tokens(64 * 512);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>((i * 7 + i / 61) % 61);
  const Tensor text = Tensor::of<int64_t>({64, 512}, tokens);
  const NamedTensors inputs{{"tokens", text}, {"targets", text}};
  const Timeline timeline = Inspector(looked).timeline("train_step", inputs);
  const Timeline again = Inspector(looked).timeline("train_step", inputs);
  plain.run("train_step", inputs);
  plain.run("train_step", inputs);
  EXPECT_EQ(looked.run("train_step", inputs).at("loss").to_doubles(),
            plain.run("train_step", inputs).at("loss").to_doubles());
  std::vector<int> seen(looked.plan("train_step", inputs).steps.size(), 0);
  EXPECT_EQ(timeline.tracks.size(), 3u);
  for (const Timeline::Track& track : timeline.tracks) {
    double last = 0;
    for (const Timeline::Span& span : track.spans) {
      ++seen.at(static_cast<size_t>(span.step));
      EXPECT_GE(span.start_us, last - 1) << track.name;
      EXPECT_GE(span.end_us, span.start_us);
      last = span.end_us;
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  EXPECT_GT(timeline.tracks[0].spans.size(), timeline.tracks[1].spans.size());
}

TEST_F(Cuda, TheFirstValueThatIsNotFiniteComesWithItsNeighbors) {
  Session session(model(), {.device = "cuda", .optimize = false, .find_nonfinite = true});
  try {
    session.run("look", {{"i", Tensor::of<int64_t>({2}, {1, 0})}});
    ADD_FAILURE() << "nothing was found";
  } catch (const NonfiniteError& error) {
    EXPECT_EQ(error.found().author, "safe");
    EXPECT_EQ(error.found().inputs.at(0)->to_doubles(), (Doubles{2, 3, 0, 1}));
    EXPECT_TRUE(std::isinf(error.found().outputs.at(0)->to_doubles()[2]));
  }
}

// Trains a tiny model of the zoo on both devices. The losses must agree step by step.
void train_on_both(const std::string& name, const models::Settings& settings, const std::string& options) {
  const std::shared_ptr<Model> made = models::make_model(name, settings);
  const passes::TrainOptions train = passes::parse_train_options(options);
  made->replace_entry(passes::run_passes(made->entry(train.entry), passes::preparation_pipeline(), {}, {}));
  passes::add_train_step(*made, train);
  Session cpu(made), cuda(made, {.device = "cuda"});
  std::vector<int64_t> tokens(4 * 32);
  for (int step = 0; step < 10; ++step) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int64_t>((i * 7 + static_cast<size_t>(step) * 13) % 61);
    const NamedTensors inputs{{"tokens", Tensor::of<int64_t>({4, 32}, tokens)},
                              {"targets", Tensor::of<int64_t>({4, 32}, tokens)}};
    const double a = cpu.run("train_step", inputs).at("loss").to_doubles()[0];
    const double b = cuda.run("train_step", inputs).at("loss").to_doubles()[0];
    EXPECT_NEAR(a, b, 1e-4 * std::abs(a)) << name << ", step " << step;
  }
}

TEST_F(Cuda, TrainsQwen2AsTheCpuDoes) {
  train_on_both("qwen2",
                {{"hidden_size", "64"},
                 {"intermediate_size", "128"},
                 {"num_hidden_layers", "2"},
                 {"num_attention_heads", "4"},
                 {"num_key_value_heads", "2"},
                 {"vocab_size", "64"}},
                "adamw,lr=1e-3,clip=1.0");
}

TEST_F(Cuda, TrainsGpt2AsTheCpuDoes) {
  train_on_both("gpt2", {{"n_embd", "64"}, {"n_layer", "2"}, {"n_head", "4"}, {"vocab_size", "64"}},
                "adamw,lr=1e-3,clip=1.0");
}

}  // namespace
}  // namespace genesis
