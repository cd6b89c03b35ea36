#include "executor/state_halves.h"

#include <memory>

#include "backends/cpu/parallel/parallel.h"
#include "schema/core/halves.h"

namespace genesis {
namespace {

constexpr int64_t kPiece = 1 << 20;  // numbers split before their upload starts: they stay in a cache
constexpr int64_t kGrain = 32 << 10;
constexpr int64_t kHalfBytes = sizeof(uint16_t);

void upload_half(Device& device, std::byte* to, const uint16_t* from, int64_t n) {
  if (to != nullptr) device.upload(to, reinterpret_cast<const std::byte*>(from), n * kHalfBytes);
}

}  // namespace

void upload_halves(Device& device, const HalvesMemory& to, const std::byte* numbers, int64_t count) {
  if (numbers == nullptr) {
    if (to.upper) device.clear(to.upper, count * kHalfBytes);
    if (to.lower) device.clear(to.lower, count * kHalfBytes);
    return;
  }
  const auto* from = reinterpret_cast<const uint32_t*>(numbers);
  const int64_t room = std::min(count, kPiece);
  const auto halves = std::make_unique_for_overwrite<uint16_t[]>(static_cast<size_t>(2 * room));
  uint16_t *const upper = halves.get(), *const lower = upper + room;
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t n = std::min(kPiece, count - at);
    cpu::parallel_ranges(n, kGrain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const Halves both = split_halves(from[at + i]);
        upper[i] = both.upper;
        lower[i] = both.lower;
      }
    });
    const int64_t offset = at * kHalfBytes;
    upload_half(device, to.upper ? to.upper + offset : nullptr, upper, n);
    upload_half(device, to.lower ? to.lower + offset : nullptr, lower, n);
  }
}

Tensor read_halves(Device& device, const TensorType& type, const HalvesMemory& from) {
  const Tensor high = read_tensor(device, {DType::bf16, type.shape}, from.upper),
               low = read_tensor(device, {DType::i16, type.shape}, from.lower);
  std::byte* data;
  Tensor joined = Tensor::uninitialized(type, &data);
  join_halves(data, high.data(), low.data(), type.numel());
  return joined;
}

void join_halves(std::byte* to, const std::byte* upper, const std::byte* lower, int64_t count) {
  const auto* high_bits = reinterpret_cast<const uint16_t*>(upper);
  const auto* low_bits = reinterpret_cast<const uint16_t*>(lower);
  auto* numbers = reinterpret_cast<uint32_t*>(to);
  cpu::parallel_ranges(count, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) numbers[i] = join_halves({high_bits[i], low_bits[i]});
  });
}

}  // namespace genesis
