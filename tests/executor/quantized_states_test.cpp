// Tests sessions of models whose weights are quantized: the values that runs and other readers see, and files.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "executor/inspector.h"
#include "executor/snapshot.h"
#include "executor/state_dict.h"
#include "executor/states/state_snapshot.h"
#include "executor/training/checkpoint.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

// An embedding, two layers after one norm, and a head. All weights can be quantized except that of the head, whose
// size is odd.
constexpr const char* kModel = R"(
state @table: f32[7,64] parameter trainable
state @gate: f32[96,64] parameter trainable
state @up: f32[96,64] parameter trainable
state @down: f32[64,96] parameter trainable
state @bias: f32[64] parameter trainable
state @odd: f32[5,95] parameter trainable
state @cache: f32[2] cache
entry forward(tokens: i64[rows]) {
  %x = embedding(tokens, @table)
  %g = linear(%x, @gate)
  %u = linear(%x, @up)
  %h = swiglu(%g, %u)
  %d = linear(%h, @down, @bias)
  %r = add(%x, %d)
  %logits = linear(%r, @table)
  return hidden = %h
  return logits = %logits
}
entry other(h: f32[rows,95]) {
  %y = linear(h, @odd)
  %t = mul(@down, @down)
  return y = %y
  return squares = %t
}
)";

Tensor random_matrix(const TensorType& type, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(type.numel()));
  for (float& value : values) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    value = static_cast<float>(seed >> 40) / static_cast<float>(1 << 24) - 0.5f;
  }
  return Tensor::copy_of(type, values.data());
}

std::unique_ptr<Model> plain_model() {
  auto model = parse_text(kModel);
  for (size_t i = 0; i < 6; ++i)
    model->set_initial(static_cast<int32_t>(i), random_matrix(model->states()[i].type, i + 1));
  return model;
}

std::shared_ptr<Model> quantized_model(WeightFormat format) {
  std::shared_ptr<Model> model = plain_model();
  passes::quantize(*model, {.format = format, .embedding = true, .head = true});
  return model;
}

// Returns the model with the same values in plain states.
std::shared_ptr<Model> decoded(const Model& model) {
  auto plain = std::make_shared<Model>(model);
  for (size_t i = 0; i < plain->states().size(); ++i)
    if (plain->states()[i].encoded)
      plain->set_initial(static_cast<int32_t>(i), initial_value(plain->states()[i]));
  return plain;
}

Tensor tokens(int64_t rows) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows; ++i) ids.push_back(i * 5 % 7);
  return Tensor::of<int64_t>({rows}, ids);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

void expect_near(const Tensor& got, const Tensor& expected, double tolerance) {
  const auto a = got.to_doubles(), b = expected.to_doubles();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

class QuantizedStates : public ::testing::TestWithParam<WeightFormat> {
 protected:
  const std::shared_ptr<Model> model_ = quantized_model(GetParam());
};

TEST_P(QuantizedStates, RunAsTheValuesThatTheyMean) {
  for (const int64_t rows : {1, 3, 80}) {
    const NamedTensors expected = Session(decoded(*model_)).run("forward", {{"tokens", tokens(rows)}});
    for (const bool optimize : {true, false}) {
      SessionOptions exact;
      exact.optimize = optimize;
      exact.disabled = {"kernel:quantized_gemv", "kernel:quantized_panels"};
      const NamedTensors dequantized = Session(model_, exact).run("forward", {{"tokens", tokens(rows)}});
      expect_near(dequantized.at("hidden"), expected.at("hidden"), 1e-6);
      expect_near(dequantized.at("logits"), expected.at("logits"), 1e-5);
    }
    // Each value of x is rounded to a byte: the error is at most half a step.
    const NamedTensors bytes = Session(model_).run("forward", {{"tokens", tokens(rows)}});
    expect_near(bytes.at("hidden"), expected.at("hidden"), 0.02);
    expect_near(bytes.at("logits"), expected.at("logits"), 0.1);
  }
}

TEST_P(QuantizedStates, AreReadByWhoeverElseReadsThem) {
  Session session(model_);
  const auto out = session.run("other", {{"h", Tensor::zeros({DType::f32, {2, 95}})}});
  const auto down = session.state("down").to_doubles();
  const auto squares = out.at("squares").to_doubles();
  for (size_t i = 0; i < down.size(); ++i) EXPECT_FLOAT_EQ(squares[i], down[i] * down[i]);
}

TEST_P(QuantizedStates, RunByTheKernelsThatReadThem) {
  Session session(model_);
  const auto kernels = Inspector(session).kernels("forward", {{"tokens", tokens(1)}});
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "linear.quantized_gemv"), 3)
      << "gate with up, down, head";
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "dequantize.blocks"), 1)
      << "the rows that were looked up";
}

TEST_P(QuantizedStates, ShowWhatTheyMean) {
  Session session(model_);
  session.run("forward", {{"tokens", tokens(1)}});
  EXPECT_EQ(Inspector(session).memory().state_bytes, 0) << "read where the model has them";
  Session plain(plain_model());
  EXPECT_LT(Inspector(session).memory().mapped_bytes, Inspector(plain).memory().mapped_bytes / 3);
  const NamedTensors dict = state_dict(session), of_model = state_dict(*model_);
  EXPECT_EQ(dict.size(), 6u);
  for (const auto& [name, value] : dict) {
    EXPECT_EQ(value.type().dtype, DType::f32);
    EXPECT_TRUE(same_bytes(value, of_model.at(name))) << name;
  }
}

TEST_P(QuantizedStates, TakeValuesAndEncodeThem) {
  Session session(model_);
  const Tensor given = random_matrix(model_->state(1).type, 99);
  session.set_state("gate", given);
  const Tensor kept = session.state("gate");
  EXPECT_FALSE(same_bytes(kept, given));
  expect_near(kept, given, GetParam() == WeightFormat::kQ8 ? 0.003 : 0.07);
  session.run("forward", {{"tokens", tokens(2)}});
  session.reset_states(StateRole::kParameter);
  EXPECT_TRUE(same_bytes(session.state("gate"), initial_value(model_->state(1))));
  std::vector<float> bad(static_cast<size_t>(given.numel()), 1.0f);
  bad[70] = NAN;
  expect_error([&] { session.set_state("gate", Tensor::copy_of(given.type(), bad.data())); },
               {"'gate'", "element 70", "cannot hold"});
}

TEST_P(QuantizedStates, AreSavedAndLoadedAsTheyAre) {
  const TemporaryFolder folder;
  Session session(model_);
  session.set_state("gate", random_matrix(model_->state(1).type, 99));
  session.run("forward", {{"tokens", tokens(2)}});
  session.save(folder / "m.genesis");
  const std::shared_ptr<const Model> file = load_model(folder / "m.genesis", {.verify = Verify::kFull});
  Session opened(file), other(model_);
  other.load(folder / "m.genesis");
  for (const State& state : file->states()) {
    const bool is_quantized = state.name != "odd" && state.name != "bias" && state.name != "cache";
    EXPECT_EQ(static_cast<bool>(state.encoded), is_quantized) << state.name;
    EXPECT_TRUE(same_bytes(opened.state(state.name), session.state(state.name))) << state.name;
    EXPECT_TRUE(same_bytes(other.state(state.name), session.state(state.name))) << state.name;
  }
}

TEST_P(QuantizedStates, TakeAFileOfPlainStates) {
  const TemporaryFolder folder;
  save_model(*plain_model(), folder / "plain.genesis");
  Session session(model_);
  session.load(folder / "plain.genesis");
  for (const State& state : model_->states())
    EXPECT_TRUE(same_bytes(session.state(state.name), initial_value(state))) << state.name;
  Session plain(plain_model());
  session.save(folder / "quantized.genesis");
  plain.load(folder / "quantized.genesis");
  EXPECT_TRUE(same_bytes(plain.state("up"), session.state("up")));
}

TEST_P(QuantizedStates, StandInCheckpointsAsTheyAre) {
  const TemporaryFolder folder;
  Session session(model_);
  session.set_state("gate", random_matrix(model_->state(1).type, 99));
  const auto resumed = load_checkpoint(save_checkpoint(session, folder.path(), 3));
  const auto snapshot = make_state_snapshot(session);
  ASSERT_TRUE(snapshot->take());
  const auto taken = snapshot->model();
  for (const State& state : model_->states()) {
    const int32_t index = model_->find_state(state.name);
    if (state.encoded) {
      EXPECT_TRUE(resumed->state(index).encoded && taken->state(index).encoded) << state.name;
    }
    if (state.role == StateRole::kCache) continue;
    EXPECT_TRUE(same_bytes(initial_value(resumed->state(index)), session.state(state.name))) << state.name;
    EXPECT_TRUE(same_bytes(initial_value(taken->state(index)), session.state(state.name))) << state.name;
  }
}

TEST_P(QuantizedStates, MeanBf16WhenTheModelIsCast) {
  const std::shared_ptr<Model> low = passes::cast_precision(*model_, DType::bf16, {});
  EXPECT_EQ(low->state(1).type.dtype, DType::bf16);
  EXPECT_EQ(low->state(1).encoded.parts[0].data(), model_->state(1).encoded.parts[0].data());
  const auto expected = Session(decoded(*model_)).run("forward", {{"tokens", tokens(3)}});
  const auto got = Session(low).run("forward", {{"tokens", tokens(3)}});
  expect_near(got.at("logits"), expected.at("logits"), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedStates,
                         ::testing::Values(WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m));

}  // namespace
}  // namespace genesis
