// The values of a model's states by name, caches excepted: what a Session gives, takes, saves and loads, and what
// torch calls a state_dict, its parameters and buffers.
//
//   load_state_dict(session, read_safetensors("model.safetensors").tensors);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "executor/named_tensors.h"
#include "schema/graph/model.h"

namespace genesis {

class Session;

// How tensors by name differ from a model's states.
struct StateDictReport {
  struct Mismatch {
    std::string name, problem;  // "fc.weight", "is f32[3,4], expected f32[4,3]"
  };
  std::vector<std::string> missing;     // states that no tensor was given for
  std::vector<std::string> unexpected;  // tensors that the model has no state for
  std::vector<Mismatch> mismatched;     // of another shape, or of a dtype that does not convert

  bool fits() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

// Parameters and buffers, as copies of one moment; of a model, what they start from.
NamedTensors state_dict(const Model& model);
NamedTensors state_dict(const Session& session);

// Gives parameters and buffers these values. Real numbers of another width are converted. States of an optimizer and
// of random numbers are taken too where they are given (Session::states() has them), and not missed where they are
// not. When `strict`, one Error lists everything that is missing, unexpected or mismatched, and nothing has changed;
// otherwise what fits is loaded and the rest is returned.
StateDictReport load_state_dict(Model& model, const NamedTensors& tensors, bool strict = true);
StateDictReport load_state_dict(Session& session, const NamedTensors& tensors, bool strict = true);
// The same for who reads a model from files: all must fit, and the Error ends with `remedy`, what its user can do.
void load_whole_state_dict(Model& model, const NamedTensors& tensors, std::string_view remedy);

// --- what Session is made of

// Whether a file keeps the state: a cache is filled anew by every text.
inline bool is_kept(const State& state) { return state.role != StateRole::kCache; }
// Whether it belongs to the model itself, whoever trains it.
inline bool is_in_state_dict(const State& state) {
  return state.role == StateRole::kParameter || state.role == StateRole::kBuffer;
}

// What a model's states start from; this is where a saved model has its values.
NamedTensors initial_values(const Model& model);

// Throws one Error that lists every state that is missing, unexpected or of another type.
void check_fit(const Model& model, const NamedTensors& values);

// Of `tensors` those that fit, in the dtypes of their states. Throws as load_state_dict() does, with `remedy` at the end.
struct FittingStates {
  NamedTensors states;
  StateDictReport report;
};
inline constexpr std::string_view kLoadThoseThatFit = "to load those that fit, give strict = false";
FittingStates fitting_states(const Model& model, const NamedTensors& tensors, bool strict,
                             std::string_view remedy = kLoadThoseThatFit);

}  // namespace genesis
