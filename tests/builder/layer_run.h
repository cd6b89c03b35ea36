// Runs layers as a user does: builds an entry point in a model, runs it in a Session and returns doubles to compare
// with plain loops. Every call makes an entry point of its own.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "builder/genesis.h"
#include "executor/session.h"

namespace genesis::testing {

using Doubles = std::vector<double>;

// Returns smooth numbers without symmetry, roughly uniform in [-1, 1]; `phase` makes tensors differ.
inline Doubles wave(int64_t count, double phase) {
  Doubles values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(std::sin(1.3 * static_cast<double>(i) + phase) * 0.9 + 0.05));
  return values;
}

inline Tensor tensor(const std::vector<int64_t>& sizes, const Doubles& values) {
  return Tensor::of<float>(sizes, std::vector<float>(values.begin(), values.end()));
}
inline Tensor wave_tensor(const std::vector<int64_t>& sizes, double phase) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return tensor(sizes, wave(count, phase));
}

// Gives parameters and buffers values for which a wrong layer gives wrong results, unlike ones and zeros.
inline void scramble(Model& model) {
  for (size_t i = 0; i < model.states().size(); ++i) {
    const State& state = model.states()[i];
    if (state.role != StateRole::kParameter && state.role != StateRole::kBuffer) continue;
    Doubles values = wave(state.type.numel(), 0.7 + static_cast<double>(i));
    if (state.name.find("running_var") != std::string::npos)
      for (double& value : values) value = static_cast<float>(std::abs(value) + 0.5);
    model.set_initial(static_cast<int32_t>(i), tensor(state.type.shape.sizes(), values));
  }
}

inline Doubles state_of(const Model& model, const std::string& name) {
  const int32_t index = model.find_state(name);
  if (index < 0) fail("no state {}", name);
  return model.state(index).initial.to_doubles();
}

inline std::vector<std::string> state_names(const Model& model) {
  std::vector<std::string> names;
  for (const State& state : model.states()) names.push_back(state.name + " " + state.type.to_string());
  return names;
}

struct LayerRun {
  NamedTensors outputs;
  Session session;
  Doubles y(const std::string& name = "y") const { return outputs.at(name).to_doubles(); }
};

// `build` receives the inputs x0, x1, ... and returns named outputs.
using BuildOutputs = std::function<std::vector<std::pair<std::string, Value>>(const std::vector<Value>&)>;

inline LayerRun run_outputs(Model& model, const std::vector<Tensor>& inputs, const BuildOutputs& build,
                            Mode mode = Mode::kEval) {
  const std::string entry = "run" + std::to_string(model.entries().size());
  GraphBuilder g(model, entry, mode);
  std::vector<Value> values;
  NamedTensors given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    values.push_back(g.input(name, inputs[i].type().dtype, inputs[i].type().shape));
    given.emplace(name, inputs[i]);
  }
  for (const auto& [name, value] : build(values)) g.output(name, value);
  LayerRun run{{}, Session(std::make_shared<Model>(model))};
  run.outputs = run.session.run(entry, given);
  return run;
}

inline LayerRun run_layer(Model& model, const std::vector<Tensor>& inputs,
                          const std::function<Value(const std::vector<Value>&)>& layer,
                          Mode mode = Mode::kEval) {
  return run_outputs(
      model, inputs,
      [&](const std::vector<Value>& x) -> std::vector<std::pair<std::string, Value>> {
        return {{"y", layer(x)}};
      },
      mode);
}

inline void expect_near(const Doubles& got, const Doubles& expected, double tolerance = 4e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
}

}  // namespace genesis::testing
