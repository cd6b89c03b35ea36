// The part of Session that reads, sets, saves and loads states by name.
#include "executor/session.h"
#include "executor/snapshot.h"
#include "executor/state_dict.h"
#include "passes/training/schedules.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/state_storage.h"

namespace genesis {
namespace {

// Returns a tensor of the state's type for check_fit(), which reads the type only: the data is not that of the type.
Tensor stand_in(const State& state) { return Tensor(state.type, nullptr, state.encoded.parts[0].data()); }

bool is_random(const State& state) { return state.role == StateRole::kRandom; }

}  // namespace

NamedTensors Session::states() const { return states_that(is_kept); }

void Session::set_states(const NamedTensors& values) {
  check_fit(model(), values);
  put_states(values);
}

void Session::save(const std::filesystem::path& path) const { save_model(*snapshot(*this), path); }

void Session::load(const std::filesystem::path& path) {
  const std::unique_ptr<Model> file = load_model(path, {.verify = Verify::kFull});
  with_context([&] { take_states(*file); },
               [&] { return "while loading the states of '" + path.string() + "'"; });
}

// A state that both models have encoded in the same format is copied in its encoded form.
void Session::take_states(const Model& file) {
  NamedTensors values;
  std::map<int32_t, EncodedValues> encoded;
  for (const State& state : file.states()) {
    if (!is_kept(state)) continue;
    const int32_t index = model().find_state(state.name);
    const bool is_alike =
        state.encoded && index >= 0 && model().state(index).encoded.format == state.encoded.format;
    if (is_alike) encoded[index] = state.encoded;
    values.emplace(state.name, is_alike ? stand_in(state) : initial_value(state));
  }
  // Training steps made by an earlier version have the learning rate as a constant instead of a state.
  if (model().find_state(optim::kBaseRate) >= 0)
    values.try_emplace(optim::kBaseRate, state(optim::kBaseRate));
  check_fit(model(), values);
  for (const auto& [index, value] : encoded) values.erase(model().state(index).name);
  put_states(values);
  put_encoded(encoded);
}

// A state of random numbers is i64[2]: the seed, and the number of steps drawn so far.
std::optional<uint64_t> Session::seed() const {
  const NamedTensors states = states_that(is_random);
  if (states.empty()) return std::nullopt;
  return static_cast<uint64_t>(states.begin()->second.as<int64_t>()[0]);
}

void Session::set_seed(uint64_t seed) {
  const Tensor start = Tensor::of<int64_t>({2}, {static_cast<int64_t>(seed), 0});
  NamedTensors values;
  for (const State& state : model().states()) {
    if (!is_random(state)) continue;
    if (!(state.type == start.type()))
      fail("the state of random numbers '{}' is {}, expected i64[2]: a seed and a step", state.name,
           state.type.to_string());
    values.emplace(state.name, start);
  }
  put_states(values);
}

NamedTensors state_dict(const Session& session) { return session.states_that(is_in_state_dict); }

StateDictReport load_state_dict(Session& session, const NamedTensors& tensors, bool strict) {
  FittingStates fitting = fitting_states(session.model(), tensors, strict);
  session.put_states(fitting.states);
  return std::move(fitting.report);
}

}  // namespace genesis
