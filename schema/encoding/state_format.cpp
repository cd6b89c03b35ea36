#include "schema/encoding/state_format.h"

#include <algorithm>
#include <cstring>

#include "schema/core/error.h"
#include "schema/core/float16.h"
#include "schema/core/halves.h"
#include "schema/core/parallel.h"

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

const StateFormat* plain_format(DType meant) {
  static const StateFormat formats[] = {plain_format_of<float>(DType::f32),
                                        plain_format_of<double>(DType::f64),
                                        plain_format_of<bf16>(DType::bf16), plain_format_of<f16>(DType::f16),
                                        plain_format_of<uint8_t>(DType::u8)};
  for (const StateFormat& format : formats)
    if (format.meant == meant) return &format;
  return nullptr;
}

namespace {

constexpr int64_t kGrain = 64 << 10;  // values that a core takes at a time

// Calls body(first, count) for ranges of whole blocks, on all cores.
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

}  // namespace genesis
