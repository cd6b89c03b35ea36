// Tests a kernel that fails in the middle of a run: the error names its node, and later calls of the session are
// refused with a message. Buffers point to addresses without memory. A CUDA error lasts for the rest of the process,
// so each test runs in a process of its own. Skipped without a GPU.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "executor/training/trainer.h"
#include "models/zoo.h"
#include "passes/precision/cast_precision.h"
#include "schema/graph/text.h"
#include "tests/cuda/on_gpu.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

// An entry point laid out by hand, so that a buffer can have any address.
class Rig {
 public:
  Rig(const Model& model, const std::string& entry, const Bindings& bindings = {})
      : model_(model),
        device_(open_device("cuda", 0)),
        compiled_(compile_entry(model, entry, bindings, device_->target(), {.device = "cuda"})),
        runner_(device_->make_runner(compiled_.plan, compiled_.runner)) {
    memory_.arena = allocate(compiled_.plan.arena_bytes);
    for (const State& state : model.states()) memory_.states.push_back(with(state.type, state.initial));
    for (const auto& constant : compiled_.work->tensors())
      memory_.constants.push_back(with(constant.tensor.type(), constant.tensor));
    for (const PlanPort& port : compiled_.plan.inputs) {
      inputs_.push_back(std::vector<std::byte>(static_cast<size_t>(port.type.bytes())));
      memory_.inputs.push_back(inputs_.back().data());
    }
    runner_->bind(memory_);
  }

  void run() {
    runner_->run({});
    runner_->wait();
  }

  void take_away(const std::string& state) {
    memory_.states.at(static_cast<size_t>(model_.find_state(state))) =
        reinterpret_cast<std::byte*>(uintptr_t{0xdead0000});
    runner_->bind(memory_);
  }

 private:
  std::byte* allocate(int64_t bytes) { return all_.emplace_back(device_->allocate(bytes)).get(); }
  std::byte* with(const TensorType& type, const Tensor& initial) {
    std::byte* to = allocate(type.bytes());
    if (!initial.empty_handle()) device_->upload(to, initial.data(), type.bytes());
    return to;
  }

  const Model& model_;
  std::shared_ptr<Device> device_;
  CompiledEntry compiled_;
  std::vector<DeviceMemory> all_;
  std::vector<std::vector<std::byte>> inputs_;
  PlanMemory memory_;
  std::unique_ptr<Runner> runner_;
};

class CudaFailureDeathTest : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs the test in a new process
  }
};

// Runs in the child process: returns the message of the error that `body` must throw.
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

// Runs in the child process: exits with an error unless `message` contains all of `parts` and none of `others`.
void expect_message(const std::string& message, const std::vector<std::string>& parts,
                    const std::vector<std::string>& others = {}) {
  std::fprintf(stderr, "%s\n", message.c_str());
  for (const std::string& part : parts)
    if (message.find(part) == std::string::npos) std::fprintf(stderr, "MISSING %s\n", part.c_str()), _exit(3);
  for (const std::string& other : others)
    if (message.find(other) != std::string::npos)
      std::fprintf(stderr, "TOO MUCH %s\n", other.c_str()), _exit(4);
}

// Exits through static destructors, in which nothing may hang or crash.
[[noreturn]] void end_well() {
  std::fprintf(stderr, "ended well\n");
  std::exit(0);
}

constexpr const char* kLine = R"(
state @a: f32[4096,4096] parameter
state @b: f32[4096,4096] parameter
state @c: f32[4096,4096] parameter
state @scale: f32[4096] parameter
state @d: f32[4096,4096] parameter
entry products(x: f32[4096,4096]) {
  %begin = matmul(x, @a)
  %first = matmul(%begin, @a)
  %middle = matmul(%first, @b)
  %last = matmul(%middle, @c)
  %end = matmul(%last, @d)
  return y = %end
}
entry norms(x: f32[4096,4096]) {
  %begin = matmul(x, @a)
  %first = matmul(%begin, @a)
  %middle = rms_norm(%first, @scale) {has_weight=true}
  %last = matmul(%middle, @c)
  %end = matmul(%last, @d)
  return y = %end
}
entry one(x: f32[]) {
  %loss = exp(x)
  return loss = %loss
}
)";

TEST_F(CudaFailureDeathTest, AProductInTheMiddleIsNamed) {
  const auto test = [] {
    {
      const auto model = parse_text(kLine);
      Rig rig(*model, "products");
      for (int i = 0; i < 3; ++i) rig.run();
      rig.take_away("b");
      const std::string first = message_of([&] { rig.run(); });
      expect_message(first, {"node 'middle' (matmul, kernel '", "entry point 'products'", "cudaError"},
                     {"'begin'", "'end'"});
      expect_message(message_of([&] { rig.run(); }), {"use the GPU no more", "an earlier run failed", first});
    }
    end_well();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "ended well");
}

// A kernel launched early reads its weights while its predecessor still runs.
TEST_F(CudaFailureDeathTest, AKernelStartedWithPdlIsNamed) {
  const auto test = [] {
    {
      const auto model = parse_text(kLine);
      Rig rig(*model, "norms");
      for (int i = 0; i < 3; ++i) rig.run();
      rig.take_away("scale");
      expect_message(message_of([&] { rig.run(); }),
                     {"node 'middle' (rms_norm, kernel '", "entry point 'norms'"}, {"'begin'"});
    }
    end_well();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "ended well");
}

std::unique_ptr<Model> language_model() {
  const auto model = models::make_model("qwen2", {{"hidden_size", "512"},
                                                  {"intermediate_size", "6144"},
                                                  {"num_hidden_layers", "6"},
                                                  {"num_attention_heads", "8"},
                                                  {"num_key_value_heads", "2"},
                                                  {"vocab_size", "4096"}});
  return passes::cast_precision(*model, DType::bf16);
}

// Weights are read ahead of the step that uses them.
TEST_F(CudaFailureDeathTest, AnInstructionOfAMegakernelIsNamed) {
  for (const std::string weight :
       {"model.layers.4.mlp.down_proj.weight", "model.layers.5.input_layernorm.weight"}) {
    const auto test = [&] {
      {
        const auto model = language_model();
        Rig rig(*model, "decode");
        for (int i = 0; i < 3; ++i) rig.run();
        rig.take_away(weight);
        expect_message(message_of([&] { rig.run(); }),
                       {"layers." + weight.substr(13, 1), "entry point 'decode'"},
                       {"layers.0.", "layers.1."});
      }
      end_well();
    };
    EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "ended well") << weight;
  }
}

class Ones final : public BatchSource {
 public:
  NamedTensors batch(int64_t) override { return {{"x", Tensor::scalar<float>(1)}}; }
  int64_t items_per_batch() const override { return 1; }
};

// Another part of the process breaks the GPU context while a model trains. Files written before are complete, and the
// session can be destroyed.
TEST_F(CudaFailureDeathTest, TrainingEndsWithAnErrorAndWholeFiles) {
  const auto test = [] {
    {
      const TemporaryFolder folder;
      const std::shared_ptr<Model> model = parse_text(
          "state @n: f32[] buffer\nentry train_step(x: f32[]) {\n  %loss = add(x, @n)\n  return loss = "
          "%loss\n"
          "  update @n = %loss\n}\n");
      const auto other = parse_text(kLine);
      Session session(model, {.device = "cuda"});
      Ones source;
      TrainerOptions options;
      options.entry = "train_step";
      options.steps = 5;
      options.checkpoint = folder / "checkpoints";
      options.checkpoint_every = 1;
      options.metrics = folder / "metrics.jsonl";
      options.on_step = [&](const TrainMetrics& metrics) {
        if (metrics.step != 2) return;
        Rig rig(*other, "products");
        rig.take_away("b");
        expect_message(message_of([&] { rig.run(); }), {"node 'middle'"});
      };
      expect_message(message_of([&] { train(session, source, options); }),
                     {"use the GPU no more", "'middle'"});
      expect_message(message_of([&] { session.run("train_step", source.batch(0)); }),
                     {"use the GPU no more"});
      expect_message(message_of([&] { session.state("n"); }), {"use the GPU no more"});
      expect_message(
          message_of([&] { Session(model, {.device = "cuda"}).run("train_step", source.batch(0)); }),
          {"use the GPU no more"});
      std::string left;
      for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints"))
        left += entry.path().filename().string() + " ";
      expect_message("left: " + left, {"left: step-"}, {"tmp", "step-2"});
      std::ifstream in(folder / "metrics.jsonl");
      int lines = 0;
      for (std::string line; std::getline(in, line); ++lines) {
      }
      if (lines != 2) std::fprintf(stderr, "%d LINES\n", lines), _exit(5);
    }
    end_well();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "ended well");
}

}  // namespace
}  // namespace genesis
