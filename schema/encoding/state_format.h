// A way to keep a state's values in parts: a row that says which parts there are and turns values into them and back, such
// as f32 as its halves. schema/encoding/quantized_formats.h has blocks of few bits. What is kept so, schema/graph/state_storage.h says.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/core/tensor.h"

namespace genesis {

// One kind of numbers that a format makes: one element for every `values_each` values along the last axis,
// which is 1 for halves and quants, and 32 for the scale that a block of 32 shares.
struct FormatPart {
  std::string_view suffix;  // of the part's name: ".upper"
  DType dtype;
  int64_t values_each = 1;
  bool is_rounded = false;  // it is the values rounded to its dtype, for who wants no more
};

struct StateFormat {
  static constexpr size_t kMaxParts = 4;
  using Parts = std::array<std::byte*, kMaxParts>;
  using ConstParts = std::array<const std::byte*, kMaxParts>;

  std::string_view name;
  DType meant;                    // of the values
  std::vector<FormatPart> parts;  // at most kMaxParts
  int64_t block = 1;              // values that are encoded together: `count` below is a multiple
  int64_t values_apart = 1;       // each member of a group begins at a multiple: 16 bytes of every part
  void (*encode)(const std::byte* values, int64_t count, const Parts& parts);
  void (*decode)(const ConstParts& parts, int64_t count, std::byte* values);
  // The first of the values that the format cannot hold, -1: none; null: it holds all.
  int64_t (*first_refused)(const std::byte* values, int64_t count) = nullptr;

  // The part that products read in training while updates write all parts; empty for formats that are not trained in.
  std::optional<size_t> rounded_part() const;
  // Bytes that `values` values take in a part.
  int64_t part_bytes(size_t part, int64_t values) const;
  // Of every part that there is, the address `values` values further on.
  template <class Addresses>
  Addresses advanced(Addresses parts, int64_t values) const {
    for (size_t i = 0; i < this->parts.size(); ++i)
      if (parts[i]) parts[i] += part_bytes(i, values);
    return parts;
  }
  // Of a part of values of this type, which why_not() has nothing against.
  TensorType part_type(size_t part, const TensorType& type) const;
  // Empty, or why values of this type cannot be kept so.
  std::optional<std::string> why_not(const TensorType& type) const;
};

// f32 as bf16 and the bits that bf16 drops, bit for bit (schema/core/halves.h). Parts: upper, lower. Who only wants to know
// how a state is kept asks its format; docs/architecture.md lists the files that know halves by name.
const StateFormat& bf16_halves_format();

// The identity format: values unencoded, of states of which a process keeps a shard. Null for dtypes that no such state has.
const StateFormat* plain_format(DType meant);

// Values in a format of states: one tensor for each part of it, in the part's dtype.
struct EncodedValues {
  const StateFormat* format = nullptr;  // null: there are none
  std::vector<Tensor> parts;
  explicit operator bool() const { return format != nullptr; }
};

// Whole tensors into a format and back, by all cores. encode_tensor() throws Error for types and values that the format
// cannot hold.
EncodedValues encode_tensor(const StateFormat& format, const Tensor& values);
Tensor decode_tensor(const EncodedValues& values, const TensorType& type);
// Throws Error where these cannot be values of this type: another dtype, parts that are missing or of another size.
void check_encoded(const EncodedValues& values, const TensorType& type);

}  // namespace genesis
