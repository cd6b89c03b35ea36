// State formats: a StateFormat describes how the values of a state are stored as parts (tensors), such as f32 as its two halves,
// and converts values to parts and back. schema/encoding/quantized_formats.h has the formats with blocks of few bits.
// schema/graph/state_storage.h says which states use a format.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/core/tensor.h"

namespace genesis {

// Describes one part of a format: a tensor with one element for every `values_each` values along the last axis. `values_each` is
// 1 for halves and q8 quants, 2 for quants of four bits, and 32 for the scale that a block of 32 shares.
struct FormatPart {
  std::string_view suffix;  // appended to the state's name: ".upper"
  DType dtype;
  int64_t values_each = 1;
  bool is_rounded = false;  // the part is the values rounded to its dtype, a less precise copy of them
};

struct StateFormat {
  static constexpr size_t kMaxParts = 4;
  using Parts = std::array<std::byte*, kMaxParts>;
  using ConstParts = std::array<const std::byte*, kMaxParts>;

  std::string_view name;
  DType meant;                    // dtype of the values
  std::vector<FormatPart> parts;  // at most kMaxParts
  int64_t block = 1;              // values that are encoded together; `count` below is a multiple of it
  int64_t values_apart = 1;       // each group member begins at a multiple, which aligns parts to 16 bytes
  void (*encode)(const std::byte* values, int64_t count, const Parts& parts);
  void (*decode)(const ConstParts& parts, int64_t count, std::byte* values);
  // Returns the index of the first value that the format cannot hold, -1 if it can hold all. Null: the format holds every value.
  int64_t (*first_refused)(const std::byte* values, int64_t count) = nullptr;

  // Returns the part that matrix products read in training, while updates write all parts; empty if the format is not used in
  // training.
  std::optional<size_t> rounded_part() const;
  // Returns the bytes that `values` values take in a part.
  int64_t part_bytes(size_t part, int64_t values) const;
  // Returns the addresses of the parts advanced by `values` values; null addresses stay null.
  template <class Addresses>
  Addresses advanced(Addresses parts, int64_t values) const {
    for (size_t i = 0; i < this->parts.size(); ++i)
      if (parts[i]) parts[i] += part_bytes(i, values);
    return parts;
  }
  // Returns the type of a part for values of `type`, which why_not() must accept.
  TensorType part_type(size_t part, const TensorType& type) const;
  // Returns the reason why values of this type cannot be kept in this format; empty if they can.
  std::optional<std::string> why_not(const TensorType& type) const;
};

// The format that stores f32 as bf16 and the bits that bf16 drops, without loss (schema/core/halves.h). Parts: upper, lower. Code
// that only needs to know how a state is kept should ask its format; docs/architecture.md lists the files that know halves by
// name.
const StateFormat& bf16_halves_format();

// Returns the identity format, for states of which a process keeps a shard unencoded; null for dtypes that no sharded state has.
const StateFormat* plain_format(DType meant);

// Values in a state format: one tensor per part, in the part's dtype.
struct EncodedValues {
  const StateFormat* format = nullptr;  // null: there are no values
  std::vector<Tensor> parts;
  explicit operator bool() const { return format != nullptr; }
};

// Convert whole tensors to a format and back, on all cores. encode_tensor() throws Error for types and values that the format
// cannot hold.
EncodedValues encode_tensor(const StateFormat& format, const Tensor& values);
Tensor decode_tensor(const EncodedValues& values, const TensorType& type);
// Throws Error if the parts cannot stand for values of this type: another dtype, or parts that are missing or of another size.
void check_encoded(const EncodedValues& values, const TensorType& type);

}  // namespace genesis
