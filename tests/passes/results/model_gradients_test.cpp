// Tests the gradients of whole models against central differences of the loss along random directions, in f64: a
// wrong gradient rule, a lost contribution or a broken chain shows here whatever the tests of single ops say.
#include <cmath>

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/training/autodiff.h"
#include "tests/op_harness.h"

namespace genesis::passes {
namespace {

struct Random {
  uint64_t seed;
  double next() {  // in [-1, 1)
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(seed >> 11) / static_cast<double>(1ull << 52) - 1.0;
  }
};

Tensor ids(std::vector<int64_t> sizes, int64_t below, Random& random) {
  std::vector<int64_t> values(static_cast<size_t>(Shape::of(sizes).numel().value()));
  for (int64_t& v : values) v = static_cast<int64_t>((random.next() + 1) / 2 * static_cast<double>(below));
  return Tensor::of<int64_t>(sizes, values);
}

std::vector<int32_t> parameters_of(const Model& model) {
  std::vector<int32_t> states;
  for (size_t i = 0; i < model.states().size(); ++i)
    if (model.states()[i].role == StateRole::kParameter) states.push_back(static_cast<int32_t>(i));
  return states;
}

// Adds the gradients of every parameter as outputs of the loss.
void add_gradient_outputs(Model& model, bool prepared) {
  if (prepared) model.replace_entry(run_passes(model.entry("loss"), preparation_pipeline(), {}));
  Graph& graph = model.entry("loss");
  std::vector<Value> parameters;
  for (int32_t state : parameters_of(model)) parameters.push_back(graph.state(state));
  const std::vector<Value> dx = gradients(graph, graph.output("loss"), parameters);
  for (size_t i = 0; i < dx.size(); ++i) graph.add_output("d." + parameters[i].name(), dx[i]);
}

// Returns parameters away from their symmetric start (ones, zeros), so that no gradient vanishes.
std::vector<std::vector<double>> start(const Model& model, Random& random) {
  std::vector<std::vector<double>> values;
  for (int32_t state : parameters_of(model)) {
    std::vector<double> v = model.state(state).initial.to_doubles();
    for (double& x : v) x += 0.3 * random.next();
    values.push_back(std::move(v));
  }
  return values;
}

void set_parameters(Session& session, const std::vector<std::vector<double>>& values,
                    const std::vector<std::vector<double>>& direction, double distance) {
  const std::vector<int32_t> states = parameters_of(session.model());
  for (size_t i = 0; i < states.size(); ++i) {
    std::vector<double> moved = values[i];
    for (size_t k = 0; k < moved.size(); ++k) moved[k] += distance * direction[i][k];
    const State& state = session.model().state(states[i]);
    session.set_state(state.name, Tensor::of<double>(state.type.shape.sizes(), moved));
  }
}

void check_gradients(const std::string& name, const models::Settings& settings, const NamedTensors& inputs,
                     bool prepared) {
  std::shared_ptr<Model> model = models::make_model(name, settings, 7);
  add_gradient_outputs(*model, prepared);
  Session session(model);
  Random random{17};
  const auto values = start(*model, random);
  const std::vector<int32_t> states = parameters_of(*model);
  for (int trial = 0; trial < 3; ++trial) {
    auto direction = values;
    for (auto& row : direction)
      for (double& x : row) x = random.next();
    const auto loss_at = [&](double distance) {
      set_parameters(session, values, direction, distance);
      return session.run("loss", inputs).at("loss").to_doubles()[0];
    };
    const double numeric = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5;
    set_parameters(session, values, direction, 0);
    const NamedTensors out = session.run("loss", inputs);
    double analytic = 0, size = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      const std::vector<double> d = out.at("d." + model->state(states[i]).name).to_doubles();
      for (size_t k = 0; k < d.size(); ++k) {
        analytic += d[k] * direction[i][k];
        size += std::abs(d[k] * direction[i][k]);
      }
    }
    EXPECT_NEAR(analytic, numeric, 1e-6 * std::max(1.0, size)) << name << (prepared ? " prepared" : "");
  }
}

TEST(ModelGradients, AgreeWithFiniteDifferences) {
  Random random{3};
  const NamedTensors tokens = {{"tokens", ids({2, 6}, 32, random)}, {"targets", ids({2, 6}, 32, random)}};
  for (const char* name : {"qwen2", "qwen3"})
    for (bool prepared : {false, true})
      check_gradients(name,
                      {{"vocab_size", "32"},
                       {"hidden_size", "16"},
                       {"intermediate_size", "24"},
                       {"num_hidden_layers", "2"},
                       {"num_attention_heads", "4"},
                       {"num_key_value_heads", "2"},
                       {"max_position_embeddings", "8"},
                       {"dtype", "f64"}},
                      tokens, prepared);
  for (bool prepared : {false, true})
    check_gradients("gpt2",
                    {{"vocab_size", "32"},
                     {"n_positions", "8"},
                     {"n_embd", "16"},
                     {"n_layer", "2"},
                     {"n_head", "2"},
                     {"dtype", "f64"}},
                    tokens, prepared);
}

// The vocabulary is large enough for the fused loss, whose gradients are computed in the forward pass.
TEST(ModelGradients, AgreeWithFiniteDifferencesThroughTheFusedLoss) {
  Random random{5};
  check_gradients("qwen2",
                  {{"vocab_size", "1200"},
                   {"hidden_size", "16"},
                   {"intermediate_size", "24"},
                   {"num_hidden_layers", "1"},
                   {"num_attention_heads", "2"},
                   {"num_key_value_heads", "1"},
                   {"max_position_embeddings", "8"},
                   {"tie_word_embeddings", "false"},
                   {"dtype", "f64"}},
                  {{"tokens", ids({2, 6}, 1200, random)}, {"targets", ids({2, 6}, 1200, random)}}, true);
}

}  // namespace
}  // namespace genesis::passes
