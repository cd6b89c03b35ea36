// Tests quantization with calibration on tiny models: which weights it rounds, that it gains, and that it gives the same bits.
#include "models/jobs/calibrate.h"

#include <cmath>
#include <cstring>

#include "executor/session.h"
#include "models/zoo.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/graph/state_storage.h"
#include "tests/op_harness.h"

namespace genesis::jobs {
namespace {

using testing::expect_error;

std::shared_ptr<Model> tiny_model() {
  return models::make_model("qwen2", {{"hidden_size", "64"},
                                      {"intermediate_size", "96"},
                                      {"num_hidden_layers", "2"},
                                      {"num_attention_heads", "2"},
                                      {"num_key_value_heads", "1"},
                                      {"initializer_range", "0.2"}});
}

text::EvaluationTexts some_texts(size_t count) {
  text::EvaluationTexts texts;
  texts.tokens.emplace_back();
  for (size_t i = 0; i < count; ++i)
    texts.tokens[0].push_back(static_cast<int64_t>(i * i * 7 + i / 3 * 31) % 200);
  return texts;
}

const passes::QuantizeOptions kOptions{.format = WeightFormat::kQ4m, .tables_as_q8 = true};

Tensor logits(const Model& model) {
  Session session(std::make_shared<const Model>(model));
  return session.run("forward", {{"tokens", Tensor::of<int64_t>({1, 96}, some_texts(96).tokens[0])}})
      .at("logits");
}

double distance(const Tensor& a, const Tensor& b) {
  const auto x = a.to_doubles(), y = b.to_doubles();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

TEST(Calibrate, ChangesLogitsLessThanTheNearestValues) {
  const Tensor exact = logits(*tiny_model());
  const auto nearest = tiny_model(), calibrated = tiny_model();
  const passes::QuantizeReport plain = passes::quantize(*nearest, kOptions);
  const passes::QuantizeReport report =
      quantize_calibrated(*calibrated, kOptions, some_texts(2048), {.seq = 128});
  EXPECT_EQ(report.quantized, plain.quantized);
  EXPECT_EQ(report.bytes_after, plain.bytes_after);
  EXPECT_LT(distance(logits(*calibrated), exact), 0.9 * distance(logits(*nearest), exact));
  for (const State& state : calibrated->states())
    EXPECT_FALSE(state.encoded && state.trainable) << state.name;
}

// Returns the bytes of all encoded states.
std::string encoded_bytes(const Model& model) {
  std::string bytes;
  for (const State& state : model.states())
    for (const Tensor& part : state.encoded.parts)
      bytes.append(reinterpret_cast<const char*>(part.data()), static_cast<size_t>(part.bytes()));
  return bytes;
}

TEST(Calibrate, GivesTheSameBitsAndReportsItsProgress) {
  std::string first;
  std::vector<uint64_t> done;
  for (int i = 0; i < 2; ++i) {
    const auto model = tiny_model();
    CalibrationOptions options{.tokens = 512, .seq = 128, .round_bytes = 1};
    options.on_progress = [&](std::string_view, uint64_t at, uint64_t) { done.push_back(at); };
    quantize_calibrated(*model, kOptions, some_texts(600), options);
    if (i == 0) first = encoded_bytes(*model);
    EXPECT_EQ(encoded_bytes(*model), first);
  }
  // Per layer: q, k and v share an input, and so do gate and up.
  EXPECT_EQ(done, (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Calibrate, RefusesTextsThatAreTooShort) {
  const auto model = tiny_model();
  expect_error([&] { quantize_calibrated(*model, kOptions, some_texts(5)); }, {"5 tokens", "at least 32"});
  for (const State& state : model->states()) EXPECT_FALSE(state.encoded) << state.name;
}

}  // namespace
}  // namespace genesis::jobs
