// Reads and loads the values of a model's states by name, except caches. state_dict() has the parameters and buffers, as in
// PyTorch.
//
//     load_state_dict(session, read_safetensors("model.safetensors").tensors);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "executor/named_tensors.h"
#include "schema/graph/model.h"

namespace genesis {

class Session;

// Tells how tensors by name differ from a model's states.
struct StateDictReport {
  struct Mismatch {
    std::string name, problem;  // "fc.weight", "is f32[3,4], expected f32[4,3]"
  };
  std::vector<std::string> missing;     // states without a tensor
  std::vector<std::string> unexpected;  // tensors without a state
  std::vector<Mismatch> mismatched;     // wrong shape, or a dtype that cannot be converted

  bool fits() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

// Returns parameters and buffers as a consistent copy; for a model, their initial values.
NamedTensors state_dict(const Model& model);
NamedTensors state_dict(const Session& session);

// Sets parameters and buffers to these values. Floating-point values of another width are converted. States of an optimizer and
// of random numbers are loaded too if present (Session::states() returns them), and may be missing. If `strict`, one Error lists
// everything that is missing, unexpected or mismatched, and nothing has changed; otherwise all tensors that fit are loaded and
// the report lists the rest.
StateDictReport load_state_dict(Model& model, const NamedTensors& tensors, bool strict = true);
StateDictReport load_state_dict(Session& session, const NamedTensors& tensors, bool strict = true);
// Does the same for code that reads a model from files: all tensors must fit, and the Error ends with `remedy`, advice to the
// user.
void load_whole_state_dict(Model& model, const NamedTensors& tensors, std::string_view remedy);

// --- implementation details of Session

// Returns true if files keep the state. Caches are not kept: every text fills them anew.
inline bool is_kept(const State& state) { return state.role != StateRole::kCache; }
// Returns true if the state belongs to the model itself rather than to its training.
inline bool is_in_state_dict(const State& state) {
  return state.role == StateRole::kParameter || state.role == StateRole::kBuffer;
}

// Returns the initial values of a model's states; a saved model has its values there.
NamedTensors initial_values(const Model& model);

// Throws one Error that lists every state that is missing, unexpected or of another type.
void check_fit(const Model& model, const NamedTensors& values);

// Holds those of `tensors` that fit, converted to the dtypes of their states. fitting_states() throws as load_state_dict() does,
// with `remedy` at the end.
struct FittingStates {
  NamedTensors states;
  StateDictReport report;
};
inline constexpr std::string_view kLoadThoseThatFit = "to load those that fit, give strict = false";
FittingStates fitting_states(const Model& model, const NamedTensors& tensors, bool strict,
                             std::string_view remedy = kLoadThoseThatFit);

}  // namespace genesis
