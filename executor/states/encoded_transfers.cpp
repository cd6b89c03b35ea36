#include "executor/states/encoded_transfers.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/parallel/parallel.h"

namespace genesis {
namespace {

constexpr int64_t kChunk = 1 << 20;   // values encoded before their upload starts; whole blocks of any format
constexpr int64_t kGrain = 32 << 10;  // values that a core takes at a time

// Throws Error if the format cannot hold one of the values. `first` is the index of the first value in the whole state.
void check_values(const StateFormat& format, const std::byte* values, int64_t count, int64_t first) {
  const int64_t refused = format.first_refused ? format.first_refused(values, count) : -1;
  if (refused >= 0)
    fail("element {} is NaN, infinite or too large: {} cannot hold it", first + refused, format.name);
}

// Runs `body` over ranges of whole blocks of values, on all cores.
template <class Body>
void for_ranges(const StateFormat& format, int64_t count, const Body& body) {
  cpu::parallel_ranges(count / format.block, kGrain / format.block, [&](int64_t first, int64_t last) {
    body(first * format.block, (last - first) * format.block);
  });
}

// Host memory for the parts of `values` values, one part after the other.
class HostParts {
 public:
  HostParts(const StateFormat& format, int64_t values) {
    int64_t bytes = 0;
    for (size_t i = 0; i < format.parts.size(); ++i) bytes += format.part_bytes(i, values);
    memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    std::byte* next = memory_.get();
    for (size_t i = 0; i < format.parts.size(); ++i) {
      parts_[i] = next;
      next += format.part_bytes(i, values);
    }
  }
  const StateFormat::Parts& parts() const { return parts_; }
  StateFormat::ConstParts read() const {
    StateFormat::ConstParts parts{};
    std::ranges::copy(parts_, parts.begin());
    return parts;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  StateFormat::Parts parts_{};
};

}  // namespace

void upload_values(Device& device, const StateFormat& format, const StateFormat::Parts& to,
                   const std::byte* values, int64_t count) {
  const int64_t chunk = std::min(count, kChunk);
  const auto value_bytes = static_cast<int64_t>(size_of(format.meant));
  std::unique_ptr<std::byte[]> zeros;
  if (values == nullptr) zeros = std::make_unique<std::byte[]>(static_cast<size_t>(chunk * value_bytes));
  const HostParts encoded(format, chunk);
  for (int64_t at = 0; at < count; at += kChunk) {
    const int64_t n = std::min(kChunk, count - at);
    const std::byte* from = values ? values + at * value_bytes : zeros.get();
    for_ranges(format, n, [&](int64_t first, int64_t length) {
      check_values(format, from + first * value_bytes, length, at + first);
      format.encode(from + first * value_bytes, length, format.advanced(encoded.parts(), first));
    });
    const StateFormat::Parts there = format.advanced(to, at);
    for (size_t i = 0; i < format.parts.size(); ++i)
      if (there[i]) device.upload(there[i], encoded.parts()[i], format.part_bytes(i, n));
  }
}

Tensor read_values(Device& device, const StateFormat& format, const TensorType& type,
                   const StateFormat::Parts& from) {
  const int64_t count = type.numel();
  const HostParts kept(format, count);
  for (size_t i = 0; i < format.parts.size(); ++i)
    device.download(kept.parts()[i], from[i], format.part_bytes(i, count));
  std::byte* data;
  Tensor values = Tensor::uninitialized(type, &data);
  decode_values(format, kept.read(), count, data);
  return values;
}

void decode_values(const StateFormat& format, const StateFormat::ConstParts& from, int64_t count,
                   std::byte* values) {
  const auto value_bytes = static_cast<int64_t>(size_of(format.meant));
  for_ranges(format, count, [&](int64_t first, int64_t length) {
    format.decode(format.advanced(from, first), length, values + first * value_bytes);
  });
}

}  // namespace genesis
