#include "executor/states/state_snapshot.h"

#include <utility>
#include <vector>

#include "executor/runtime/device.h"
#include "executor/states/encoded_transfers.h"

namespace genesis {

StateSnapshot::StateSnapshot(const Model& model, const StateMemory& states, Device& device,
                             StateShards shards)
    : model_(model), states_(states), shards_(std::move(shards)), downloads_(device.make_downloads()) {}

bool StateSnapshot::reserve(const StateCopies& layout) {
  if (!downloads_->reserve(layout.bytes, layout.decoded_bytes)) return false;
  if (layout.decoded_bytes > decoded_bytes_) {
    decoded_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(layout.decoded_bytes));
    decoded_bytes_ = layout.decoded_bytes;
  }
  return true;
}

bool StateSnapshot::take() {
  taken_ = layout();
  if (!reserve(taken_)) return false;
  find_untouched();
  downloads_->take(taken_.parts);
  return true;
}

// Finds the states that this rank writes to a checkpoint and that no run has written yet.
void StateSnapshot::find_untouched() {
  std::vector<bool> is_taken(model_.states().size());
  for (const StateCopies::Value& value : taken_.values) is_taken[static_cast<size_t>(value.state)] = true;
  untouched_.clear();
  for (int32_t i = 0; i < static_cast<int32_t>(is_taken.size()); ++i) {
    const State& state = model_.state(i);
    if (is_taken[static_cast<size_t>(i)] || state.role == StateRole::kCache || !shards_.is_mine(i)) continue;
    State kept = state;
    kept.type = states_.kept_type(i);
    if (state.encoded) kept.encoded = states_.encoded_values(i);  // the value it was set to
    if (!(kept.type == state.type)) kept.initial = states_.kept(i);
    untouched_.emplace(i, std::move(kept));
  }
}

namespace {

EncodedValues encoded_at(const std::byte* copies, const StateCopies::Value& value) {
  EncodedValues values{value.format, {}};
  for (size_t i = 0; i < value.format->parts.size(); ++i)
    values.parts.emplace_back(value.format->part_type(i, value.type), nullptr, copies + value.at[i]);
  return values;
}

}  // namespace

State StateSnapshot::taken(const StateCopies::Value& value, const std::byte* copies, int64_t& decoded) const {
  State state = model_.state(value.state);
  state.type = value.type;
  const std::byte* data = copies + value.at[0];
  if (value.format && state.encoded.format == value.format) {
    state.encoded = encoded_at(copies, value);
    return state;
  }
  if (value.format) {
    StateFormat::ConstParts parts{};
    for (size_t i = 0; i < value.format->parts.size(); ++i) parts[i] = copies + value.at[i];
    std::byte* to = decoded_.get() + decoded;
    decode_values(*value.format, parts, value.type.numel(), to);
    decoded += value.type.bytes();
    data = to;
  }
  state.initial = Tensor(value.type, nullptr, data);
  return state;
}

// Returns the states that this rank writes, by index in the model.
std::map<int32_t, State> StateSnapshot::all_taken() {
  std::map<int32_t, State> states = untouched_;
  const std::byte* copies = downloads_->wait();
  int64_t decoded = 0;
  for (const StateCopies::Value& value : taken_.values)
    states.emplace(value.state, taken(value, copies, decoded));
  for (auto& [index, state] : states)
    if (!state.encoded && state.initial.empty_handle()) state.initial = Tensor::zeros(state.type);
  return states;
}

std::unique_ptr<Model> StateSnapshot::model() {
  auto model = std::make_unique<Model>(model_);
  for (auto& [index, state] : all_taken()) {
    if (state.encoded)
      model->set_encoded(index, state.encoded);
    else
      model->set_initial(index, state.initial);
  }
  return model;
}

std::unique_ptr<Model> StateSnapshot::shard() {
  auto model = std::make_unique<Model>();
  for (auto& [index, state] : all_taken()) model->add_state(state);
  return model;
}

std::unique_ptr<Model> StateSnapshot::shard_now() const {
  auto model = std::make_unique<Model>();
  const std::map<int32_t, EncodedValues> encoded = states_.encoded();
  for (int32_t i = 0; i < static_cast<int32_t>(model_.states().size()); ++i) {
    State state = model_.state(i);
    if (state.role == StateRole::kCache || !shards_.is_mine(i)) continue;
    state.type = states_.kept_type(i);
    if (state.encoded)
      state.encoded = encoded.at(i);
    else
      state.initial = states_.kept(i);
    model->add_state(std::move(state));
  }
  return model;
}

}  // namespace genesis
