#include "executor/named_states.h"

#include <fmt/ranges.h>

#include <vector>

namespace genesis {
namespace {

using Lines = std::vector<std::string>;

std::string part(const char* title, const Lines& states) {
  return states.empty() ? "" : fmt::format("\n  {} {}: {}", states.size(), title, fmt::join(states, ", "));
}

}  // namespace

NamedTensors initial_values(const Model& model) {
  NamedTensors values;
  for (const State& state : model.states())
    if (is_kept(state))
      values.emplace(state.name, state.initial.empty_handle() ? Tensor::zeros(state.type) : state.initial);
  return values;
}

void check_fit(const Model& model, const NamedTensors& values) {
  Lines missing, unknown, misfits;
  for (const State& state : model.states()) {
    if (!is_kept(state)) continue;
    const auto value = values.find(state.name);
    if (value == values.end())
      missing.push_back(fmt::format("{} ({})", state.name, state.type.to_string()));
    else if (value->second.empty_handle())
      misfits.push_back(state.name + " holds no data");
    else if (!(value->second.type() == state.type))
      misfits.push_back(fmt::format("{} is {}, expected {}", state.name, value->second.type().to_string(),
                                    state.type.to_string()));
  }
  for (const auto& [name, value] : values) {
    const int32_t index = model.find_state(name);
    if (index < 0 || !is_kept(model.state(index))) unknown.push_back(name);
  }
  if (missing.empty() && unknown.empty() && misfits.empty()) return;
  fail("the states given are not those of the session's model, and nothing was changed:{}{}{}",
       part("missing", missing), part("that the model does not have", unknown),
       part("of another type", misfits));
}

}  // namespace genesis
