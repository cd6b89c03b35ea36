// Tests models with weights in q8 and q4 that ranks along "tensor" compute together, against one rank that has all
// blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "executor/inspector.h"
#include "executor/session.h"
#include "models/zoo.h"
#include "passes/distribution/tensor_shards.h"
#include "passes/lora/lora.h"
#include "passes/precision/quantize.h"
#include "passes/training/train_step.h"
#include "schema/file/reader.h"
#include "schema/graph/state_cuts.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/debug_text.h"
#include "tests/distributed/training/small_training.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using testing::run_ranks;

struct Form {
  WeightFormat format = WeightFormat::kQ8;
  int64_t inner = 192;  // width of the feed-forward layers
  bool is_tied = true;
};

// Returns a model whose table and head are quantized too. Each of two ranks has 64 of o_proj's 128 columns and 96 of
// down_proj's 192.
std::shared_ptr<Model> quantized(const Form& form) {
  const std::shared_ptr<Model> model =
      models::make_model("qwen2",
                         {{"vocab_size", "96"},
                          {"hidden_size", "128"},
                          {"intermediate_size", std::to_string(form.inner)},
                          {"num_hidden_layers", "2"},
                          {"num_attention_heads", "4"},
                          {"num_key_value_heads", "2"},
                          {"max_position_embeddings", "48"},
                          {"tie_word_embeddings", form.is_tied ? "true" : "false"}},
                         7);
  passes::quantize(*model, {.format = form.format, .embedding = true, .head = true});
  return model;
}

Tensor tokens(std::vector<int64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  return Tensor::of<int64_t>({1, count}, std::move(ids));
}

// Generates greedily from a prompt. `logits` receives those of every token.
std::vector<int64_t> text_of(Session& session, std::vector<Tensor>* logits) {
  std::vector<int64_t> text = {5, 1, 7, 2, 9};
  const auto next = [&](const char* entry, const Tensor& read, int64_t position) {
    NamedTensors inputs = {{"tokens", read}, {"position", Tensor::of<int64_t>({1}, {position})}};
    if (entry == std::string("prefill"))
      inputs.emplace("length", Tensor::of<int64_t>({1}, {read.type().numel()}));
    const Tensor made = session.run(entry, inputs).at("logits");
    logits->push_back(made);
    const std::vector<double> numbers = made.to_doubles();
    const auto last = numbers.end() - 96;
    text.push_back(std::max_element(last, numbers.end()) - last);
  };
  next("prefill", tokens(text), 0);
  while (text.size() < 30) next("decode", tokens({text.back()}), static_cast<int64_t>(text.size()) - 1);
  return text;
}

int64_t bytes_of_weights(const Model& model) {
  int64_t bytes = 0;
  for (const State& state : model.states())
    for (const Tensor& part : state.encoded.parts) bytes += part.bytes();
  return bytes;
}

// Compares logits to 1e-5, except for at most `steps_off` tokens, whose logits may differ by two steps of a byte.
void expect_same_text(const std::shared_ptr<const Model>& model, const std::set<std::string>& disabled,
                      int steps_off) {
  std::vector<Tensor> logits;
  Session alone(model, {.threads = 1, .disabled = disabled});
  const std::vector<int64_t> text = text_of(alone, &logits);
  const Mesh mesh = Mesh::parse("tensor=2");
  run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(
        model, {.threads = 1, .disabled = disabled, .mesh = mesh, .rank = rank, .collectives = collectives});
    std::vector<Tensor> shared;
    EXPECT_EQ(text_of(session, &shared), text);
    int off = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double apart = testing::relative_difference(shared[i], logits[i]);
      off += !(apart < 1e-5);
      EXPECT_LT(apart, off <= steps_off ? 2.0 / 127 : 1e-5) << i;
    }
    // Each rank has half of every weight, and small caches, norms and biases.
    EXPECT_LT(Inspector(session).memory().state_bytes, bytes_of_weights(*model) / 2 + (48 << 10));
  });
}

// The disabled kernels first convert x to bytes. Ranks add in another order, and a changed last bit may round to the
// next byte, which is a step of 1/127 of the largest value in its block.
void expect_text_of_one_rank(const std::shared_ptr<const Model>& model) {
  expect_same_text(model, {"kernel:linear.quantized_gemv", "kernel:linear.quantized_panels"}, 0);
  expect_same_text(model, {}, 2);
}

// Without them each rank has all blocks.
TEST(QuantizedWeights, WithoutDecodedSlicesStayWhole) {
  const std::shared_ptr<const Model> model = quantized({});
  std::vector<Tensor> logits;
  Session alone(model, {.threads = 1});
  const std::vector<int64_t> text = text_of(alone, &logits);
  const Mesh mesh = Mesh::parse("tensor=2");
  run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1,
                            .disabled = {"decode_slices"},
                            .mesh = mesh,
                            .rank = rank,
                            .collectives = collectives});
    std::vector<Tensor> shared;
    EXPECT_EQ(text_of(session, &shared), text);
  });
}

class QuantizedTensor : public ::testing::TestWithParam<std::tuple<WeightFormat, bool>> {};

TEST_P(QuantizedTensor, WritesTheTextOfOneRank) {
  const auto& [format, is_tied] = GetParam();
  expect_text_of_one_rank(quantized({.format = format, .is_tied = is_tied}));
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedTensor,
                         ::testing::Combine(::testing::Values(WeightFormat::kQ8, WeightFormat::kQ4,
                                                              WeightFormat::kQ4m),
                                            ::testing::Bool()));

// Returns the shapes of the slices on the second of two ranks.
std::map<std::string, std::string> shapes_of_slices(const Model& model) {
  std::map<std::string, std::string> shapes;
  for (const StoredGroup& group : passes::find_tensor_shards(model, Mesh::parse("tensor=2"), 1).groups)
    shapes[model.state(group.members[0]).name] = group.shard->shape.to_string();
  return shapes;
}

// Rows are cut anywhere, and columns between blocks.
TEST(QuantizedTensor, CutsRowsAndBlocks) {
  const std::map<std::string, std::string> kept = shapes_of_slices(*quantized({}));
  EXPECT_EQ(kept.at("model.embed_tokens.weight"), "[48,128]");
  EXPECT_EQ(kept.at("model.layers.1.self_attn.q_proj.weight"), "[64,128]");
  EXPECT_EQ(kept.at("model.layers.1.self_attn.o_proj.weight"), "[128,64]");
  EXPECT_EQ(kept.at("model.layers.1.mlp.down_proj.weight"), "[128,96]");
}

// With 160 columns each of two ranks would have 80, which is two and a half blocks. So the ranks take rows and gather
// their results.
TEST(QuantizedTensor, WhereABlockWouldBeCutRowsAre) {
  const std::shared_ptr<const Model> model = quantized({.inner = 160});
  std::map<std::string, std::string> kept;
  const std::string text = testing::debug_text([&] { kept = shapes_of_slices(*model); });
  EXPECT_EQ(kept.at("model.layers.0.self_attn.o_proj.weight"), "[128,64]");
  EXPECT_EQ(kept.at("model.layers.0.mlp.up_proj.weight"), "[80,128]");
  EXPECT_EQ(kept.at("model.layers.0.mlp.down_proj.weight"), "[64,160]");
  EXPECT_NE(text.find("dimension 1 of 'model.layers.0.mlp.down_proj.weight' stays whole: "
                      "'model.layers.0.mlp.down_proj.weight': 2 ranks would cut axis 1 of f32[128,160] into "
                      "shards of 80, and q8 keeps blocks of 32; along 'tensor' would do 5"),
            std::string::npos)
      << text;
  expect_text_of_one_rank(model);
}

// A session returns the states it was given, and saves them in the same encoding.
TEST(QuantizedTensor, StatesComeAndGoWhole) {
  const std::shared_ptr<const Model> model = quantized({});
  const Mesh mesh = Mesh::parse("tensor=2");
  const testing::TemporaryFolder folder;
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const State& state = model->state(model->find_state(name));
  run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
    std::vector<Tensor> before, zeroed, after;
    text_of(session, &before);
    EXPECT_EQ(testing::relative_difference(session.state(name), initial_value(state)), 0);
    session.set_state(name, Tensor::zeros(state.type));
    text_of(session, &zeroed);
    EXPECT_GT(testing::relative_difference(zeroed[0], before[0]), 1e-3);
    session.set_state(name, initial_value(state));
    text_of(session, &after);
    EXPECT_LT(testing::relative_difference(after[0], before[0]), 1e-5);
    if (rank == 0) session.save(folder / "saved.genesis");
    if (rank != 0) session.take_part_in_gather();
  });
  const auto saved = load_model(folder / "saved.genesis");
  EXPECT_EQ(bytes_of_weights(*saved), bytes_of_weights(*model));
}

// Trains adapters beside frozen quantized layers, through which gradients flow. Products round their input to 8 bits,
// so the last bit of a sum over ranks may become a step of that rounding.
TEST(QuantizedTensor, TrainsAdaptersAsOneRankDoes) {
  const std::shared_ptr<Model> model = quantized({});
  passes::add_lora(*model, {.rank = 4});
  passes::add_training(*model, passes::parse_train_options("adamw,lr=1e-3,eps=1e-4,clip=1.0"));
  const testing::Curve alone = testing::train(model, {}, 20);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  const testing::Curve whole = testing::train_on("data=2,tensor=2", model, {}, 20)[0];
  for (size_t i = 0; i < alone.losses.size(); ++i)
    EXPECT_NEAR(whole.losses[i], alone.losses[i], 1e-3 * alone.losses[i]) << i;
  for (const int zero : {1, 3})
    for (const testing::Curve& rank : testing::train_on("data=2,tensor=2", model, {.zero = zero}, 20))
      testing::expect_same_bits(rank, whole);
}

}  // namespace
}  // namespace genesis
