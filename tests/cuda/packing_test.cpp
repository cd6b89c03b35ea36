// Tests operands that are slices of one tensor, on a GPU: at sizes where the library computes attention, and in
// training steps with merged layers. Skipped without a GPU.
#include <cmath>

#include "backends/cuda/attention/cudnn/cudnn_attention.h"
#include "backends/cuda/runtime/libraries.h"
#include "passes/training/autodiff.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/cuda/alike.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

using Packing = OnGpu;

Tensor waves(const std::vector<int64_t>& shape, double step) {
  const TensorType type{DType::f32, Shape::of(shape)};
  std::vector<float> values(static_cast<size_t>(type.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(2 * std::sin(step * static_cast<double>(i % 100003)));
  return Tensor::of<float>(shape, values);
}

// Computes y and the gradient by q, k and v, which are one tensor, in bf16.
NamedTensors packed_attention_on(const std::string& device) {
  const int64_t time = 256, heads = 14, key_heads = 2, size = 64;
  return run_graph({{"qkv", waves({2, time, heads + 2 * key_heads, size}, 0.7)},
                    {"dy", waves({2, time, heads, size}, 0.3)}},
                   [&](const Inputs& in) {
                     const Value y = packed_attention(cast(in[0], DType::bf16), key_heads, {.causal = true});
                     const auto d = passes::gradients(in.graph, sum(cast(y, DType::f32) * in[1]), {in[0]});
                     return std::vector<std::pair<std::string, Value>>{{"y", y}, {"dqkv", d[0]}};
                   },
                   {.device = device});
}

TEST_F(Packing, AttentionIsThatOfTheCpu) {
  expect_alike(packed_attention_on("cuda"), packed_attention_on("cpu"));
}

// If the library makes no plan, the tiled kernel takes over, which only a clock would notice.
TEST_F(Packing, TheLibraryTakesPackedHeads) {
  if (!cuda::cudnn().available()) GTEST_SKIP() << "cuDNN is not there";
  for (const int64_t key_heads : {2, 14}) {
    ops::Attention op;
    op.causal = true;
    op.packed_key_heads = key_heads;
    const Attributes attributes = to_attributes(op);
    const std::vector<TensorType> in = {{DType::bf16, {2, 1024, 14 + 2 * key_heads, 64}}},
                                  out = {{DType::bf16, {2, 1024, 14, 64}}};
    cuda::AttentionShape shape = cuda::attention_shape({*find_op("attention"), attributes, in, out});
    for (const bool gradient : {false, true}) {
      shape.gradient = gradient;
      EXPECT_NE(cuda::shared_cudnn_attention(shape, true), nullptr) << key_heads;
    }
  }
}

// Trains with merged layers, packed swiglu and its recomputed output: the losses of both devices agree step by step.
void train_on_both(const std::string& name, const models::Settings& settings) {
  const std::shared_ptr<Model> model = models::make_model(name, settings);
  const passes::TrainOptions train = passes::parse_train_options("adamw,lr=1e-3,clip=1.0,precision=bf16");
  model->replace_entry(passes::run_passes(model->entry(train.entry), passes::preparation_pipeline(), {}, {}));
  passes::add_train_step(*model, train);
  Session cpu(model), cuda(model, {.device = "cuda"});
  for (int64_t step = 0; step < 10; ++step) {
    const NamedTensors inputs = tiny_batch(step);
    const double a = cpu.run("train_step", inputs).at("loss").to_doubles()[0],
                 b = cuda.run("train_step", inputs).at("loss").to_doubles()[0];
    EXPECT_NEAR(a, b, 0.005 * a) << name << ", step " << step;
  }
}

TEST_F(Packing, TrainsInBf16AsTheCpuDoes) {
  train_on_both("qwen2", {{"hidden_size", "64"},
                          {"intermediate_size", "128"},
                          {"num_hidden_layers", "2"},
                          {"num_attention_heads", "4"},
                          {"num_key_value_heads", "2"},
                          {"vocab_size", "64"}});
  train_on_both("gpt2", {{"n_embd", "64"}, {"n_layer", "2"}, {"n_head", "4"}, {"vocab_size", "64"}});
}

}  // namespace
}  // namespace genesis
