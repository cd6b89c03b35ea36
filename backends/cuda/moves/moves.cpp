#include "backends/cuda/moves/moves.h"

#include <algorithm>

namespace genesis::cuda {
namespace {

constexpr int64_t kWidest = 16;
constexpr int64_t kManyItems = 1 << 20;  // from here on a thread has several: more bytes in flight

// Returns whether the target is contiguous along the last axis, and the source is contiguous there or repeats one
// element.
bool has_run(const StridedCopy& copy) {
  if (copy.rank == 0) return false;
  const auto last = static_cast<size_t>(copy.rank - 1);
  return copy.to[last] == 1 && (copy.from[last] == 1 || (copy.from[last] == 0 && copy.element <= 8));
}

void add_axis(DeviceMove& move, int64_t size, int64_t to, int64_t from) {
  move.dims[move.rank] = make_divisor(size);
  move.to_strides[move.rank] = to;
  move.from_strides[move.rank] = from;
  move.items *= size;
  ++move.rank;
}

// Returns the widest access whose size divides every address.
int64_t width_of(uint64_t addresses) {
  const uint64_t lowest = addresses & (~addresses + 1);
  return lowest == 0 ? kWidest : std::min<int64_t>(kWidest, static_cast<int64_t>(lowest));
}

}  // namespace

DeviceMove make_device_move(const StridedCopy& copy, void* to, const void* from, uint64_t pattern,
                            int64_t shift_bytes) {
  DeviceMove move;
  if (copy.empty) return move;
  const bool run = has_run(copy);
  const int outer = copy.rank - (run ? 1 : 0);
  const auto last = static_cast<size_t>(outer);
  const int64_t run_bytes = (run ? copy.dims[last] : 1) * copy.element;
  const bool splat = from == nullptr || (run && copy.from[last] == 0);
  move.to = static_cast<std::byte*>(to) + copy.to_offset;
  if (from != nullptr) move.from = static_cast<const std::byte*>(from) + copy.from_offset;
  move.pattern = pattern;
  move.splat = splat ? static_cast<int32_t>(copy.element) : 0;
  uint64_t addresses = static_cast<uint64_t>(run_bytes) | static_cast<uint64_t>(shift_bytes) |
                       reinterpret_cast<uintptr_t>(move.to);
  if (!splat) addresses |= reinterpret_cast<uintptr_t>(move.from);
  move.items = 1;
  for (int i = 0; i < outer; ++i) {
    const auto k = static_cast<size_t>(i);
    add_axis(move, copy.dims[k], copy.to[k] * copy.element, copy.from[k] * copy.element);
    addresses |= static_cast<uint64_t>(move.to_strides[i]);
    if (!splat) addresses |= static_cast<uint64_t>(move.from_strides[i]);
  }
  move.width = static_cast<int32_t>(width_of(addresses));
  if (run_bytes > move.width) add_axis(move, run_bytes / move.width, move.width, splat ? 0 : move.width);
  move.per_thread = move.items >= kManyItems ? 4 : 1;
  return move;
}

}  // namespace genesis::cuda
