// Tests what every family has to do beside computing logits: training as transformers does, decoding as in one pass, weights in q8 and
// q4, and adapters of PEFT.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "executor/generation/engine.h"
#include "executor/session.h"
#include "models/formats/hugging_face/adapter.h"
#include "models/formats/hugging_face/import.h"
#include "models/generation/generator.h"
#include "passes/precision/quantize.h"
#include "passes/training/train_step.h"
#include "tests/models/checkpoints.h"
#include "tests/models/small_families.h"

namespace genesis {
namespace {

namespace hf = models::hugging_face;
using nlohmann::json;
using testing::checkpoints;
using testing::read_json;
using Tokens = std::vector<int64_t>;

Tensor row_of(const Tokens& tokens) { return Tensor::of<int64_t>({1, std::ssize(tokens)}, tokens); }

std::vector<double> last(const Tensor& logits, size_t count) {
  const std::vector<double> all = logits.to_doubles();
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], bound * (1 + std::abs(expected[i]))) << "token " << i;
}

class FamilyCheckpoint : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> model() const {
    return hf::import_model(checkpoints() / GetParam(), {{"dtype", "f32"}});
  }
};

// The batches of make_checkpoints.py.
NamedTensors batch(int64_t step) {
  Tokens tokens, targets;
  for (int64_t i = 0; i < 2 * 17; ++i) {
    const int64_t id = (i * 7 + i / 3 * 5 + step * 11) % 61;
    if (i % 17 < 16) tokens.push_back(id);
    if (i % 17 > 0) targets.push_back(id);
  }
  return {{"tokens", Tensor::of<int64_t>({2, 16}, tokens)},
          {"targets", Tensor::of<int64_t>({2, 16}, targets)}};
}

TEST_P(FamilyCheckpoint, TrainsAsTransformersDoes) {
  const json results = read_json(checkpoints() / "expected.json")["models"][GetParam()],
             losses = results.value("losses", json::array());
  if (losses.empty()) GTEST_SKIP() << "transformers trains it with pictures";
  const std::shared_ptr<Model> trained = model();
  const double rate = results.value("learning_rate", 1e-2);
  passes::add_training(
      *trained, passes::parse_train_options(fmt::format("adamw,lr={},eps=1e-4,weight_decay=0.1", rate)));
  Session session(trained, {.threads = 1});
  ASSERT_EQ(losses.size(), 10U);
  for (int64_t step = 0; step < 10; ++step) {
    const double expected = losses[static_cast<size_t>(step)];
    EXPECT_NEAR(session.run("train_step", batch(step)).at("loss").item<double>(), expected, 2e-5 * expected)
        << "step " << step;
  }
}

TEST_P(FamilyCheckpoint, DecodesAsInOnePass) {
  const std::shared_ptr<const Model> decoder = model();
  const Tokens tokens = read_json(checkpoints() / "expected.json")["prompt"];
  Session session(decoder, {.threads = 1});
  const std::vector<double> whole =
      last(session.run("forward", {{"tokens", row_of(tokens)}}).at("logits"), 61);
  Tensor logits;
  for (int64_t at = 0; at < std::ssize(tokens); ++at) {
    const NamedTensors inputs = {{"tokens", row_of({tokens[static_cast<size_t>(at)]})},
                                 {"position", Tensor::of<int64_t>({1}, {at})}};
    logits = session.run("decode", inputs).at("logits");
  }
  expect_near(last(logits, 61), whole, 1e-5);
}

// The loss that balances experts, over the layers that have some: twice the coefficient adds it twice.
TEST_P(FamilyCheckpoint, BalancesExpertsAsTransformersDoes) {
  const json expected = read_json(checkpoints() / "expected.json")["models"][GetParam()];
  if (!expected.contains("balance")) GTEST_SKIP() << "no such loss";
  const auto loss = [&](const models::Settings& changes) {
    models::Settings settings = {{"dtype", "f32"}};
    for (const auto& [name, value] : changes) settings[name] = value;
    Session session(std::shared_ptr<const Model>(hf::import_model(checkpoints() / GetParam(), settings)),
                    {.threads = 1});
    return session.run("loss", batch(0)).at("loss").item<double>();
  };
  const double balance = expected["balance"], without = loss({});
  EXPECT_NEAR(loss({{"output_router_logits", "true"}, {"router_aux_loss_coef", "2"}}) - without, 2 * balance,
              2e-5);
  const double z = expected["z"];
  EXPECT_NEAR(loss({{"router_z_loss_coef", "2"}}) - without, 2 * z, 2e-5 * (1 + z));
}

std::vector<std::string> names_of_checkpoints() {
  std::vector<std::string> names;
  const json expected = read_json(checkpoints() / "expected.json");
  for (const auto& [name, results] : expected["models"].items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyCheckpoint, ::testing::ValuesIn(names_of_checkpoints()),
                         [](const auto& info) { return info.param; });

class SmallFamily : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<double> logits(const std::function<void(Model&)>& change) const {
    models::Settings settings = testing::small_settings(GetParam());
    settings["initializer_range"] = "0.15";
    const std::shared_ptr<Model> model = models::make_model(GetParam(), settings, /*seed=*/2);
    change(*model);
    Session session(model, {.threads = 1});
    return session.run("forward", {{"tokens", row_of({5, 1, 36, 0, 7, 60, 22, 9})}})
        .at("logits")
        .to_doubles();
  }
};

// Returns the Euclidean norm of the difference, relative to that of `whole`.
double relative_error(const std::vector<double>& got, const std::vector<double>& whole) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    difference += (got[i] - whole[i]) * (got[i] - whole[i]);
    norm += whole[i] * whole[i];
  }
  return std::sqrt(difference / norm);
}

TEST_P(SmallFamily, ComputesWithQuantizedWeights) {
  const std::vector<double> whole = logits([](Model&) {});
  for (const auto& [format, bound] : {std::pair(WeightFormat::kQ8, 0.05), {WeightFormat::kQ4, 0.4}}) {
    const std::vector<double> quantized = logits([format = format](Model& model) {
      const passes::QuantizeReport report = passes::quantize(model, {.format = format});
      EXPECT_GE(report.quantized.size(), 2 * 6U);  // all projections of both layers
    });
    const double error = relative_error(quantized, whole);
    EXPECT_LT(error, bound);
    EXPECT_GT(error, 0);
  }
}

// A cache of one row becomes one of four, of which a step for one text has two.
TEST_P(SmallFamily, WritesTheSameTextInOneOfManyRows) {
  models::Settings settings = testing::small_settings(GetParam());
  settings["initializer_range"] = "0.15";
  const std::shared_ptr<const Model> model = models::make_model(GetParam(), settings, /*seed=*/2);
  std::vector<int64_t> alone;
  for (const int64_t rows : {1, 4}) {
    Session session = text::open_for_generation(models::with_cache(*model, rows, 32), {.threads = 1});
    EXPECT_EQ(session.has_entry("decode_and_sample_first_2"), rows == 4);
    generation::Engine engine(session);
    const generation::RequestId id = engine.submit({{5, 1, 36, 0, 7}, {.max_tokens = 6, .temperature = 0}});
    while (engine.step()) EXPECT_LE(engine.load().step_rows, 2);
    const std::vector<int64_t> tokens = engine.poll(id).result->tokens;
    EXPECT_EQ(tokens.size(), 6u);
    if (rows == 1) alone = tokens;
    EXPECT_EQ(tokens, alone);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, SmallFamily, ::testing::ValuesIn(testing::decoder_families()),
                         [](const auto& info) { return info.param; });

class FamilyAdapter : public ::testing::TestWithParam<std::string> {};

TEST_P(FamilyAdapter, ComputesWhatPeftDoes) {
  const json golden = read_json(checkpoints() / "lora.json");
  const std::shared_ptr<Model> model = hf::import_model(checkpoints() / GetParam(), {{"dtype", "f32"}});
  hf::load_adapter(*model, checkpoints() / (GetParam() + "_lora"));
  Session session(model, {.threads = 1});
  const Tensor logits = session.run("forward", {{"tokens", row_of(golden["prompt"])}}).at("logits");
  expect_near(last(logits, 61), golden["families"][GetParam()], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyAdapter,
                         ::testing::Values("gemma3", "cohere", "starcoder2", "phi3", "glm4"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace genesis
