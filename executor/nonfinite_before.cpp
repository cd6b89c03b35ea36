#include "executor/nonfinite_before.h"

#include "executor/runtime/nonfinite.h"

namespace genesis {

std::string nonfinite_before(const Compiled& compiled, const Model& model, const StateMemory& states,
                             Device& device) {
  std::string text;
  const auto look = [&](const char* kind, const std::string& name, const Tensor& tensor) {
    const auto found = first_nonfinite(view_of(tensor.type(), const_cast<std::byte*>(tensor.data())));
    if (!found) return;
    text += fmt::format("{}{} '{}' held {} at element {}", text.empty() ? "before the run " : ", ", kind,
                        name, name_of(*found), found->index);
  };
  for (const PlanPort& port : compiled.plan.inputs) look("input", port.name, compiled.read(port, device));
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i)
    if (compiled.memory.states[static_cast<size_t>(states.home(i))])
      look("state", model.state(i).name, states.kept(i));
  return text;
}

}  // namespace genesis
