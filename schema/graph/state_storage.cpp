#include "schema/graph/state_storage.h"

#include <algorithm>
#include <cstring>

namespace genesis {
namespace {

// Returns true if the model already has the parts: the only member is encoded in the group's format.
bool is_encoded_so(const Model& model, const StoredGroup& group) {
  return group.members.size() == 1 && model.state(group.members[0]).encoded.format == group.format;
}

// Returns a part of a group: the concatenated rows of its members.
State part_of(const Model& model, const StoredGroup& group, size_t index) {
  const FormatPart& part = group.format->parts[index];
  const State& first = model.state(group.members[0]);
  State state{.name = first.name + std::string(part.suffix),
              .type = {part.dtype, first.type.shape},
              .role = first.role,
              .trainable = first.trainable,
              .initial = {}};
  int64_t rows = 0;
  for (int32_t member : group.members) rows += model.state(member).type.shape[0].value();
  state.type.shape[0] = Dim(rows);
  if (group.is_shard(index))
    state.type.shape = group.shard->shape.rank() > 0 ? group.shard->shape : Shape{group.shard->numel()};
  state.type = group.format->part_type(index, {first.type.dtype, state.type.shape});
  if (is_encoded_so(model, group)) state.initial = first.encoded.parts[index];
  while (model.find_state(state.name) >= 0) state.name += '_';
  return state;
}

}  // namespace

const StateFormat* shard_format(const State& state) {
  return state.encoded ? nullptr : plain_format(state.type.dtype);
}

Tensor initial_value(const State& state) {
  if (state.encoded) return decode_tensor(state.encoded, state.type);
  return state.initial.empty_handle() ? Tensor::zeros(state.type) : state.initial;
}

StateStorage encoded_states(const Model& model) {
  StateStorage storage;
  for (size_t i = 0; i < model.states().size(); ++i)
    if (const EncodedValues& encoded = model.states()[i].encoded)
      storage.groups.push_back({encoded.format, {static_cast<int32_t>(i)}, {}});
  number_parts(storage, model.states().size());
  return storage;
}

void Shard::take(const std::byte* all, int64_t total, size_t value_bytes, std::byte* kept) const {
  const size_t piece = static_cast<size_t>(count) * value_bytes,
               run = static_cast<size_t>(total / runs) * value_bytes;
  const std::byte* from = all + static_cast<size_t>(first) * value_bytes;
  for (int64_t i = 0; i < runs; ++i, from += run, kept += piece) std::memcpy(kept, from, piece);
}

void Shard::join(const std::byte* of_ranks, int64_t total, size_t value_bytes, std::byte* all) const {
  const int64_t ranks = total / numel();
  const size_t piece = static_cast<size_t>(count) * value_bytes, run = static_cast<size_t>(ranks) * piece;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t i = 0; i < runs; ++i, of_ranks += piece)
      std::memcpy(all + static_cast<size_t>(i) * run + static_cast<size_t>(rank) * piece, of_ranks, piece);
}

Shard StoredGroup::shard_of(int64_t values, int64_t all) const {
  if (values == all) return *shard;
  const int64_t ranks = all / shard->count, place = shard->first / shard->count;
  return {shard->axis, place * (values / ranks), values / ranks};
}

bool StateStorage::has_shards() const {
  return std::ranges::any_of(groups, [](const StoredGroup& group) { return bool(group.shard); });
}

std::vector<int32_t> StateStorage::members() const {
  std::vector<int32_t> all;
  for (const StoredGroup& group : groups) all.insert(all.end(), group.members.begin(), group.members.end());
  std::ranges::sort(all);
  return all;
}

void number_parts(StateStorage& storage, size_t states) {
  auto next = static_cast<int32_t>(states);
  for (StoredGroup& group : storage.groups) {
    group.parts.resize(group.format->parts.size());
    for (int32_t& part : group.parts) part = next++;
  }
}

void add_parts(Model& model, const StateStorage& storage) {
  for (const StoredGroup& group : storage.groups)
    for (size_t i = 0; i < group.parts.size(); ++i) {
      const int32_t added = model.add_state(part_of(model, group, i));
      GENESIS_ASSERT(added == group.parts[i]);
    }
}

}  // namespace genesis
