#include "executor/states/state_snapshot.h"

#include "executor/runtime/device.h"
#include "executor/states/stored_values.h"

namespace genesis {

StateSnapshot::StateSnapshot(const Model& model, const StateMemory& states, Device& device)
    : model_(model), states_(states), downloads_(device.make_downloads()) {}

bool StateSnapshot::reserve(const StateCopies& layout) {
  if (!downloads_->reserve(layout.bytes, layout.decoded_bytes)) return false;
  if (layout.decoded_bytes > decoded_room_) {
    decoded_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(layout.decoded_bytes));
    decoded_room_ = layout.decoded_bytes;
  }
  return true;
}

bool StateSnapshot::take() {
  taken_ = layout();
  if (!reserve(taken_)) return false;
  downloads_->take(taken_.parts);
  return true;
}

namespace {

EncodedValues encoded_at(const std::byte* copies, const StateCopies::Value& value, const TensorType& type) {
  EncodedValues values{value.format, {}};
  for (size_t i = 0; i < value.format->parts.size(); ++i)
    values.parts.emplace_back(value.format->part_type(i, type), nullptr, copies + value.at[i]);
  return values;
}

}  // namespace

std::unique_ptr<Model> StateSnapshot::model() {
  auto model = std::make_unique<Model>(model_);
  const std::byte* copies = downloads_->wait();
  int64_t decoded = 0;
  for (const StateCopies::Value& value : taken_.values) {
    const TensorType& type = model->state(value.state).type;
    const std::byte* data = copies + value.at[0];
    if (value.format && model->state(value.state).encoded.format == value.format) {
      model->set_encoded(value.state, encoded_at(copies, value, type));
      continue;
    }
    if (value.format) {
      StateFormat::ConstParts parts{};
      for (size_t i = 0; i < value.format->parts.size(); ++i) parts[i] = copies + value.at[i];
      std::byte* to = decoded_.get() + decoded;
      decode_values(*value.format, parts, type.numel(), to);
      decoded += type.bytes();
      data = to;
    }
    model->set_initial(value.state, Tensor(type, nullptr, data));
  }
  for (size_t i = 0; i < model->states().size(); ++i) {  // nobody has written these yet
    const State& state = model->states()[i];
    if (state.role != StateRole::kCache && !state.encoded && state.initial.empty_handle())
      model->set_initial(static_cast<int32_t>(i), Tensor::zeros(state.type));
  }
  return model;
}

}  // namespace genesis
