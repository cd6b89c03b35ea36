#include "schema/graph/state_storage.h"

#include <algorithm>

#include "schema/core/halves.h"

namespace genesis {
namespace {

void encode_halves(const std::byte* values, int64_t count, const StateFormat::Parts& parts) {
  const auto* from = reinterpret_cast<const uint32_t*>(values);
  auto *upper = reinterpret_cast<uint16_t*>(parts[0]), *lower = reinterpret_cast<uint16_t*>(parts[1]);
  for (int64_t i = 0; i < count; ++i) {
    const Halves halves = split_halves(from[i]);
    upper[i] = halves.upper;
    lower[i] = halves.lower;
  }
}

void decode_halves(const StateFormat::ConstParts& parts, int64_t count, std::byte* values) {
  const auto *upper = reinterpret_cast<const uint16_t*>(parts[0]),
             *lower = reinterpret_cast<const uint16_t*>(parts[1]);
  auto* to = reinterpret_cast<uint32_t*>(values);
  for (int64_t i = 0; i < count; ++i) to[i] = join_halves({upper[i], lower[i]});
}

// The part of a group: its members' rows one behind the other.
State part_of(const Model& model, const StoredGroup& group, const FormatPart& part) {
  const State& first = model.state(group.members[0]);
  State state{.name = first.name + std::string(part.suffix),
              .type = {part.dtype, first.type.shape},
              .role = first.role,
              .trainable = first.trainable,
              .initial = {}};
  int64_t rows = 0;
  for (int32_t member : group.members) rows += model.state(member).type.shape[0].value();
  state.type.shape[0] = Dim(rows);
  Dim& last = state.type.shape[state.type.shape.rank() - 1];
  GENESIS_ASSERT(last.value() % part.values_each == 0);
  last = Dim(last.value() / part.values_each);
  while (model.find_state(state.name) >= 0) state.name += '_';
  return state;
}

}  // namespace

int64_t StateFormat::part_bytes(size_t part, int64_t values) const {
  return values / parts[part].values_each * static_cast<int64_t>(size_of(parts[part].dtype));
}

const StateFormat& bf16_halves_format() {
  static const StateFormat format{.name = "bf16_halves",
                                  .meant = DType::f32,
                                  .parts = {{".upper", DType::bf16}, {".lower", DType::i16}},
                                  .encode = encode_halves,
                                  .decode = decode_halves};
  return format;
}

std::vector<int32_t> StateStorage::members() const {
  std::vector<int32_t> all;
  for (const StoredGroup& group : groups) all.insert(all.end(), group.members.begin(), group.members.end());
  std::sort(all.begin(), all.end());
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
      const int32_t added = model.add_state(part_of(model, group, group.format->parts[i]));
      GENESIS_ASSERT(added == group.parts[i]);
    }
}

}  // namespace genesis
