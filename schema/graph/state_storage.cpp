#include "schema/graph/state_storage.h"

#include <algorithm>
#include <cstring>

#include "schema/core/float16.h"
#include "schema/core/halves.h"
#include "schema/core/parallel.h"
#include "schema/graph/quantized_formats.h"

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

template <class T>
StateFormat plain_format_of(DType meant) {
  return {.name = "plain",
          .meant = meant,
          .parts = {{".shard", meant}},
          .encode =
              [](const std::byte* values, int64_t count, const StateFormat::Parts& parts) {
                std::memcpy(parts[0], values, static_cast<size_t>(count) * sizeof(T));
              },
          .decode =
              [](const StateFormat::ConstParts& parts, int64_t count, std::byte* values) {
                std::memcpy(values, parts[0], static_cast<size_t>(count) * sizeof(T));
              }};
}

// Whether the parts are already there.
bool is_encoded_so(const Model& model, const StoredGroup& group) {
  return group.members.size() == 1 && model.state(group.members[0]).encoded.format == group.format;
}

// The part of a group: its members' rows one behind the other.
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

std::optional<size_t> StateFormat::rounded_part() const {
  const auto at = std::ranges::find_if(parts, &FormatPart::is_rounded);
  if (at == parts.end()) return std::nullopt;
  return static_cast<size_t>(at - parts.begin());
}

int64_t StateFormat::part_bytes(size_t part, int64_t values) const {
  return values / parts[part].values_each * static_cast<int64_t>(size_of(parts[part].dtype));
}

TensorType StateFormat::part_type(size_t part, const TensorType& type) const {
  TensorType made{parts[part].dtype, type.shape};
  Dim& last = made.shape[made.shape.rank() - 1];
  GENESIS_ASSERT(last.value() % parts[part].values_each == 0);
  last = Dim(last.value() / parts[part].values_each);
  return made;
}

std::optional<std::string> StateFormat::why_not(const TensorType& type) const {
  if (type.dtype != meant)
    return fmt::format("it is {}, this format is of {}", name_of(type.dtype), name_of(meant));
  if (type.shape.rank() == 0) return "it has no axis";
  const int64_t last = type.shape[type.shape.rank() - 1].value();
  if (last % block != 0)
    return fmt::format("its rows have {} values, which is no multiple of {}", last, block);
  return std::nullopt;
}

const StateFormat& bf16_halves_format() {
  static const StateFormat format{
      .name = "bf16_halves",
      .meant = DType::f32,
      .parts = {{.suffix = ".upper", .dtype = DType::bf16, .is_rounded = true}, {".lower", DType::i16}},
      .values_apart = 8,
      .encode = encode_halves,
      .decode = decode_halves};
  return format;
}

const StateFormat* shard_format(const State& state) {
  return state.encoded ? nullptr : plain_format(state.type.dtype);
}

const StateFormat* plain_format(DType meant) {
  static const StateFormat formats[] = {
      plain_format_of<float>(DType::f32), plain_format_of<double>(DType::f64),
      plain_format_of<bf16>(DType::bf16), plain_format_of<f16>(DType::f16)};
  for (const StateFormat& format : formats)
    if (format.meant == meant) return &format;
  return nullptr;
}

const StateFormat* find_file_format(std::string_view name, DType meant) {
  for (const StateFormat* format : quantized_formats())
    if (format->name == name && format->meant == meant) return format;
  return nullptr;
}

namespace {

constexpr int64_t kGrain = 64 << 10;  // values that a core takes at a time

// body(first, count) for ranges of whole blocks, by all cores.
template <class Body>
void for_blocks(const StateFormat& format, int64_t count, const Body& body) {
  in_parallel(
      count / format.block, std::max<int64_t>(1, kGrain / format.block),
      [&](int64_t first, int64_t last) { body(first * format.block, (last - first) * format.block); });
}

double element(const Tensor& tensor, int64_t index) {
  return dispatch(tensor.type().dtype, [&](auto tag) {
    return static_cast<double>(tensor.as<typename decltype(tag)::type>()[static_cast<size_t>(index)]);
  });
}

}  // namespace

EncodedValues encode_tensor(const StateFormat& format, const Tensor& values) {
  const TensorType& type = values.type();
  if (const auto why = format.why_not(type))
    fail("a {} cannot be kept as {}: {}", type.to_string(), format.name, *why);
  EncodedValues made{&format, {}};
  StateFormat::Parts parts{};
  for (size_t i = 0; i < format.parts.size(); ++i)
    made.parts.push_back(Tensor::uninitialized(format.part_type(i, type), &parts[i]));
  const auto width = static_cast<int64_t>(size_of(type.dtype));
  for_blocks(format, type.numel(), [&](int64_t first, int64_t count) {
    const std::byte* from = values.data() + first * width;
    if (const int64_t at = format.first_refused ? format.first_refused(from, count) : -1; at >= 0)
      fail("element {} is {}, which {} cannot hold", first + at, element(values, first + at), format.name);
    format.encode(from, count, format.advanced(parts, first));
  });
  return made;
}

Tensor decode_tensor(const EncodedValues& values, const TensorType& type) {
  check_encoded(values, type);
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  StateFormat::ConstParts parts{};
  for (size_t i = 0; i < values.parts.size(); ++i) parts[i] = values.parts[i].data();
  const auto width = static_cast<int64_t>(size_of(type.dtype));
  for_blocks(*values.format, type.numel(), [&](int64_t first, int64_t count) {
    values.format->decode(values.format->advanced(parts, first), count, data + first * width);
  });
  return tensor;
}

void check_encoded(const EncodedValues& values, const TensorType& type) {
  const StateFormat& format = *values.format;
  if (const auto why = format.why_not(type))
    fail("a {} cannot be kept as {}: {}", type.to_string(), format.name, *why);
  if (values.parts.size() != format.parts.size())
    fail("{} has {} parts, {} were given", format.name, format.parts.size(), values.parts.size());
  for (size_t i = 0; i < format.parts.size(); ++i) {
    const TensorType expected = format.part_type(i, type);
    if (values.parts[i].empty_handle() || !(values.parts[i].type() == expected))
      fail("its part '{}' must be {}, got {}", format.parts[i].suffix, expected.to_string(),
           values.parts[i].empty_handle() ? "none" : values.parts[i].type().to_string());
  }
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
