#include "executor/state_dict.h"
#include "schema/core/type_limits.h"
#include "schema/graph/state_storage.h"

#include <fmt/ranges.h>

namespace genesis {
namespace {

using Lines = std::vector<std::string>;

// The type that a tensor must have to be taken as a state, apart from its shape.
enum class Fit : uint8_t { kSameType, kConvertible };

std::string part(const char* title, const Lines& states) {
  return states.empty() ? "" : fmt::format("\n  {} {}: {}", states.size(), title, fmt::join(states, ", "));
}

// Returns e.g. "\n  1 missing: fc.weight (f32[4,3])\n  1 unexpected: ...".
std::string text_of(const Model& model, const StateDictReport& report) {
  Lines missing, mismatched;
  for (const std::string& name : report.missing)
    missing.push_back(fmt::format("{} ({})", name, model.state(model.find_state(name)).type.to_string()));
  for (const auto& [name, problem] : report.mismatched)
    mismatched.push_back(fmt::format("{} {}", name, problem));
  return part("missing", missing) + part("unknown to the model", report.unexpected) +
         part("with another type", mismatched);
}

// Returns an empty text if the tensor can be taken.
std::string problem_of(const State& state, const Tensor& tensor, Fit fit) {
  if (tensor.empty_handle()) return "holds no data";
  const TensorType &got = tensor.type(), &expected = state.type;
  const bool converts = fit == Fit::kConvertible && is_float(got.dtype) && is_float(expected.dtype);
  if (got.shape == expected.shape && (converts || got.dtype == expected.dtype)) return "";
  return fmt::format("is {}, expected {}", got.to_string(), expected.to_string());
}

StateDictReport compare(const Model& model, const NamedTensors& tensors, bool (*is_needed)(const State&),
                        Fit fit) {
  StateDictReport report;
  for (const State& state : model.states()) {
    const auto given = is_kept(state) ? tensors.find(state.name) : tensors.end();
    if (given == tensors.end()) {
      if (is_needed(state)) report.missing.push_back(state.name);
    } else if (std::string problem = problem_of(state, given->second, fit); !problem.empty()) {
      report.mismatched.push_back({state.name, std::move(problem)});
    }
  }
  for (const auto& [name, tensor] : tensors) {
    const int32_t index = model.find_state(name);
    if (index < 0 || !is_kept(model.state(index))) report.unexpected.push_back(name);
  }
  return report;
}

Tensor as_state(const std::string& name, const Tensor& tensor, DType dtype) {
  Tensor converted = tensor.to(dtype);
  with_context([&] { check_f16_range(tensor, converted, "take bf16 or f32 as the model's dtype"); },
               [&] { return "in weight '" + name + "'"; });
  return converted;
}

}  // namespace

NamedTensors initial_values(const Model& model) {
  NamedTensors values;
  for (const State& state : model.states())
    if (is_kept(state)) values.emplace(state.name, initial_value(state));
  return values;
}

NamedTensors state_dict(const Model& model) {
  NamedTensors values = initial_values(model);
  for (const State& state : model.states())
    if (!is_in_state_dict(state)) values.erase(state.name);
  values.complete("the model has no parameter or buffer");
  return values;
}

void check_fit(const Model& model, const NamedTensors& values) {
  const StateDictReport report = compare(model, values, is_kept, Fit::kSameType);
  if (!report.fits())
    fail("the states given are not those of the session's model, and nothing was changed:{}",
         text_of(model, report));
}

FittingStates fitting_states(const Model& model, const NamedTensors& tensors, bool strict,
                             std::string_view remedy) {
  FittingStates fitting;
  fitting.report = compare(model, tensors, is_in_state_dict, Fit::kConvertible);
  if (strict && !fitting.report.fits())
    fail("the tensors given are not the model's parameters and buffers, and nothing was changed:{}\n  {}",
         text_of(model, fitting.report), remedy);
  for (const auto& [name, tensor] : tensors) {
    const int32_t index = model.find_state(name);
    if (index < 0 || !is_kept(model.state(index))) continue;
    const State& state = model.state(index);
    if (problem_of(state, tensor, Fit::kConvertible).empty())
      fitting.states.emplace(name, as_state(name, tensor, state.type.dtype));
  }
  return fitting;
}

namespace {

void put(Model& model, const FittingStates& fitting) {
  for (const auto& [name, tensor] : fitting.states) model.set_initial(model.find_state(name), tensor);
}

}  // namespace

StateDictReport load_state_dict(Model& model, const NamedTensors& tensors, bool strict) {
  FittingStates fitting = fitting_states(model, tensors, strict);
  put(model, fitting);
  return std::move(fitting.report);
}

void load_whole_state_dict(Model& model, const NamedTensors& tensors, std::string_view remedy) {
  put(model, fitting_states(model, tensors, true, remedy));
}

}  // namespace genesis
