// Tests loss curves, gradients and logits of small models against PyTorch's (golden.json, made by make_golden.py).
// Both compute weights and data by the same formulas over names and indices.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/training/autodiff.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis {
namespace {

using nlohmann::json;

// Computes zlib's CRC-32 bit by bit; it determines the phase of each parameter.
uint32_t crc32(const std::string& text) {
  uint32_t crc = 0xffffffffu;
  for (unsigned char c : text) {
    crc ^= c;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

Tensor weight(const std::string& name, const TensorType& type) {
  const double phase = crc32(name) % 1000 / 100.0;
  const bool norm = name.find("norm") != std::string::npos;
  const auto last = static_cast<double>(type.shape[type.shape.rank() - 1].value());
  const double offset = norm ? 1 : 0, scale = norm ? 0.1 : 1 / std::sqrt(last);
  std::vector<float> values;
  for (int64_t i = 0; i < type.numel(); ++i)
    values.push_back(static_cast<float>(offset + scale * std::sin(0.7 * static_cast<double>(i) + phase)));
  return Tensor::of<float>(type.shape.sizes(), values);
}

NamedTensors text_batch(int64_t step, int64_t batch, int64_t seq, int64_t vocab) {
  std::vector<int64_t> tokens, targets;
  for (int64_t row = 0; row < batch; ++row)
    for (int64_t k = 0; k <= seq; ++k) {
      const int64_t i = row * (seq + 1) + k, id = (i * 7 + i / 3 * 5 + step * 11) % vocab;
      if (k < seq) tokens.push_back(id);
      if (k > 0) targets.push_back(id);
    }
  return {{"tokens", Tensor::of<int64_t>({batch, seq}, tokens)},
          {"targets", Tensor::of<int64_t>({batch, seq}, targets)}};
}

NamedTensors vector_batch(int64_t step, int64_t features, int64_t classes) {
  std::vector<float> x;
  std::vector<int64_t> target;
  for (int64_t i = 0; i < 16 * features; ++i)
    x.push_back(static_cast<float>(std::sin(0.3 * static_cast<double>(i) + 0.1 * static_cast<double>(step))));
  for (int64_t i = 0; i < 16; ++i) target.push_back((i * 3 + step) % classes);
  return {{"x", Tensor::of<float>({16, features}, x)}, {"target", Tensor::of<int64_t>({16}, target)}};
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = parse_json_text(read_whole_file(std::string(GENESIS_SOURCE_ROOT) + "/tests/models/golden.json"))
                  .at(GetParam());
    models::Settings settings;
    for (const auto& [key, value] : golden_["settings"].items())
      settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
    model_ = models::make_model(GetParam(), settings);
    for (size_t i = 0; i < model_->states().size(); ++i) {
      const State& state = model_->states()[i];
      if (state.role == StateRole::kParameter)
        model_->set_initial(static_cast<int32_t>(i), weight(state.name, state.type));
    }
  }

  NamedTensors batch(int64_t step) const {
    const json& settings = golden_["settings"];
    if (GetParam() == "mlp") return vector_batch(step, settings["in_features"], settings["num_classes"]);
    return text_batch(step, 4, 24, settings["vocab_size"]);
  }

  json golden_;
  std::shared_ptr<Model> model_;
};

class GoldenText : public Golden {};

TEST_P(Golden, LossCurveIsPyTorchsOverFiftySteps) {
  passes::add_train_step(
      *model_,
      passes::parse_train_options("adamw,lr=3e-4,beta1=0.9,beta2=0.95,eps=1e-5,weight_decay=0.1,clip=1.0"));
  Session session(model_);
  for (size_t step = 0; step < golden_["losses"].size(); ++step) {
    const double expected = golden_["losses"][step];
    const double loss =
        session.run("train_step", batch(static_cast<int64_t>(step))).at("loss").as<float>()[0];
    ASSERT_NEAR(loss, expected, 1e-4 * std::abs(expected)) << "step " << step;
  }
}

TEST_P(Golden, GradientsArePyTorchs) {
  Graph& graph = model_->entry("loss");
  std::vector<std::string> names;
  std::vector<Value> parameters;
  for (const auto& [name, facts] : golden_["gradients"].items()) {
    const int32_t index = model_->find_state(name);
    ASSERT_GE(index, 0) << "no parameter " << name;
    names.push_back(name);
    parameters.push_back(graph.state(index));
  }
  const std::vector<Value> gradients = passes::gradients(graph, graph.output("loss"), parameters);
  for (size_t i = 0; i < names.size(); ++i) graph.add_output("d " + names[i], gradients[i]);
  Session session(model_);
  const NamedTensors results = session.run("loss", batch(0));
  for (const std::string& name : names) {
    const json& facts = golden_["gradients"][name];
    const auto got = results.at("d " + name).as<float>();
    double squares = 0;
    for (float g : got) squares += static_cast<double>(g) * g;
    const double norm = facts["norm"];
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm) << name;
    for (size_t k = 0; k < facts["at"].size(); ++k)
      EXPECT_NEAR(got[facts["at"][k].get<size_t>()], facts["values"][k].get<double>(), 1e-4 * norm)
          << name << " " << facts["at"][k];
  }
}

// Compares the last logits of ten tokens: of the whole text at once, of prefill, and of prefill followed by decoding
// token by token.
TEST_P(GoldenText, LogitsArePyTorchsHoweverTheTextIsRead) {
  const auto expected = golden_["last_logits"].get<std::vector<double>>();
  const auto expect_logits = [&](const Tensor& logits, const char* how) {
    const auto all = logits.as<float>();
    const auto last = all.subspan(all.size() - expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(last[i], expected[i], 1e-4 * std::max(1.0, std::abs(expected[i]))) << how << " " << i;
  };
  const Tensor tokens = text_batch(0, 1, 10, golden_["settings"]["vocab_size"]).at("tokens");
  Session session(model_);
  expect_logits(session.run("forward", {{"tokens", tokens}}).at("logits"), "forward");
  const auto part = [&](int64_t from, int64_t count) {
    const auto ids = tokens.as<int64_t>().subspan(static_cast<size_t>(from), static_cast<size_t>(count));
    return NamedTensors{{"tokens", Tensor::of<int64_t>({1, count}, {ids.begin(), ids.end()})},
                        {"position", Tensor::of<int64_t>({1}, {from})}};
  };
  const auto prefill = [&](int64_t from, int64_t count) {
    NamedTensors inputs = part(from, count);
    inputs.emplace("length", Tensor::of<int64_t>({1}, {count}));
    return session.run("prefill", inputs).at("logits");
  };
  expect_logits(prefill(0, 10), "prefill");
  session.reset_states(StateRole::kCache);
  prefill(0, 4);
  prefill(4, 3);
  session.run("decode", part(7, 1));
  session.run("decode", part(8, 1));
  expect_logits(session.run("decode", part(9, 1)).at("logits"), "decode");
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Golden, ::testing::Values("mlp", "qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenText, ::testing::Values("qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

// A seed gives the same bits with any number of threads.
TEST(Determinism, TrainingStepsGiveTheSameBitsWithOneTwoAndFourThreads) {
  const auto losses = [](int threads) {
    std::shared_ptr<Model> model =
        models::make_model("gpt2", {{"n_embd", "64"}, {"n_layer", "2"}, {"dropout", "0.1"}}, 5);
    passes::add_train_step(*model, passes::parse_train_options("adamw,lr=1e-3,clip=1.0"));
    Session session(model, {.threads = threads});
    std::vector<float> values;
    for (int64_t step = 0; step < 5; ++step) {
      const NamedTensors results = session.run("train_step", text_batch(step, 4, 96, 256));
      values.push_back(results.at("loss").as<float>()[0]);
      values.push_back(results.at("grad_norm").as<float>()[0]);
    }
    return values;
  };
  const std::vector<float> expected = losses(1);
  EXPECT_EQ(losses(2), expected);
  EXPECT_EQ(losses(4), expected);
}

}  // namespace
}  // namespace genesis
