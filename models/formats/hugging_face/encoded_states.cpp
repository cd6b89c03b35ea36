#include "models/formats/hugging_face/encoded_states.h"

#include <fmt/ranges.h>

#include "models/formats/hugging_face/fused.h"
#include "models/formats/hugging_face/quantized/keep.h"

namespace genesis::models::hugging_face {
namespace {

// Returns the states that a weight of the checkpoint becomes: one, or the parts of a fused matrix; nothing if the model lacks one.
std::vector<int32_t> states_of(const Model& model, const Family& family, const std::string& name) {
  std::vector<std::string> names = parts_of(family.hugging_face->fused, name);
  if (names.empty()) names = {name};
  std::vector<int32_t> states;
  for (const std::string& part : names) states.push_back(model.find_state(part));
  return std::ranges::find(states, -1) == states.end() ? states : std::vector<int32_t>();
}

// Calls set(state, first row, rows) for each state.
void for_rows(const Model& model, const std::vector<int32_t>& states, const auto& set) {
  for (int64_t first = 0; const int32_t state : states) {
    const int64_t rows = model.state(state).type.shape[0].value();
    set(state, first, rows);
    first += rows;
  }
}

void set_states(Model& model, const std::vector<int32_t>& states, const quantized::EncodedWeight& weight,
                Quantized quantized, QuantizedReport& report) {
  const DType dtype = model.state(states[0]).type.dtype;
  const EncodedValues kept = quantized == Quantized::kKept ? quantized::kept(weight, dtype) : EncodedValues{};
  const Tensor widened = kept ? Tensor() : quantized::decode(weight, dtype);
  if (!kept) ++report.widened[weight.kind];
  if (states.size() == 1 && !kept) return model.set_initial(states[0], widened);
  for_rows(model, states, [&](int32_t state, int64_t first, int64_t rows) {
    if (!kept) return model.set_initial(state, rows_between(widened, first, rows));
    EncodedValues part{kept.format, {}};
    for (const Tensor& all : kept.parts) part.parts.push_back(rows_between(all, first, rows));
    set_kept(model, state, std::move(part), report);
  });
}

}  // namespace

Tensor stand_in(const TensorType& type) {
  alignas(64) static const std::byte kNothing[64] = {};
  return {type, nullptr, kNothing};
}

void add_stand_ins(const Model& model, const Family& family, CheckpointWeights& weights) {
  for (const auto& [name, weight] : weights.encoded) {
    const std::vector<int32_t> states = states_of(model, family, name);
    const DType dtype = states.empty() ? DType::f32 : model.state(states[0]).type.dtype;
    if (!weights.tensors.emplace(name, stand_in({dtype, weight.shape})).second)
      fail("'{}' is stored twice: quantized, and as it is", name);
  }
}

std::string QuantizedReport::to_string(DType dtype) const {
  std::vector<std::string> lines;
  for (const auto& [format, count] : kept)
    lines.push_back(fmt::format("{} tensors kept as {}", count, format));
  for (const auto& [kind, count] : widened)
    lines.push_back(fmt::format("{} {}widened from {} to {}", count, lines.empty() ? "tensors " : "", kind,
                                name_of(dtype)));
  return fmt::format("{}", fmt::join(lines, ", "));
}

void set_kept(Model& model, int32_t state, EncodedValues values, QuantizedReport& report) {
  ++report.kept[std::string(values.format->name)];
  model.set_trainable(state, false);
  model.set_encoded(state, std::move(values));
}

QuantizedReport set_encoded_states(Model& model, const Family& family,
                                   const quantized::EncodedWeights& weights, Quantized quantized) {
  QuantizedReport report;
  for (const auto& [name, weight] : weights)
    if (const auto states = states_of(model, family, name); !states.empty())
      with_context([&, &weight = weight] { set_states(model, states, weight, quantized, report); },
                   [&name = name] { return "in weight '" + name + "'"; });
  return report;
}

}  // namespace genesis::models::hugging_face
