// Sorts by CUB's onesweep (Adinets and Merrill, "Onesweep: a faster least significant digit radix sort for GPUs",
// 2022).
#include "backends/cuda/device/radix_sort.h"

#include <cub/device/device_radix_sort.cuh>
#include <utility>

#include "backends/cuda/device/divisor.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

// An upper bound of CUB's scratch memory. CUB itself tells the size only on a machine with a GPU, and plans are made
// without one. CUB keeps a counter of 4 bytes for each of the 256 digits of a tile, which has 1,900 keys of 16 bytes
// (more if the keys are smaller), and some fixed amount.
CheckedSize work_bytes(const SortShape& shape) {
  return (CheckedSize(shape.rows) * shape.n * shape.key_bytes()).divided_up(8) + (1 << 20);
}

struct FillPlaces {
  Divisor n;
  bool small;
  uint32_t* places;

  __device__ void operator()(int64_t i) const {
    places[i] = static_cast<uint32_t>(divide(static_cast<uint64_t>(i), n, small).remainder);
  }
};

template <class Key>
int sort_keys(const KernelContext& c, const SortShape& shape, const SortBuffers& b) {
  cub::DoubleBuffer<Key> keys(static_cast<Key*>(b.keys[0]), static_cast<Key*>(b.keys[1]));
  cub::DoubleBuffer<uint32_t> places(b.places[0], b.places[1]);
  const auto sort = [&](void* work, size_t& bytes) {
    check(cub::DeviceRadixSort::SortPairs(work, bytes, keys, places, shape.rows * shape.n, 0, shape.bits(),
                                          launch_of(c).stream),
          "sorting keys");
  };
  size_t needed = 0;
  sort(nullptr, needed);  // only asks for the size
  const auto booked = static_cast<size_t>(work_bytes(shape).value());
  if (needed > booked)
    fail(
        "sorting {} rows of {} keys: CUB needs {} bytes of scratch memory, the plan has {}; please report "
        "this",
        shape.rows, shape.n, needed, booked);
  sort(b.work, needed);
  return keys.selector;
}

}  // namespace

int64_t sort_scratch_bytes(const SortShape& shape) {
  const CheckedSize count = CheckedSize(shape.rows) * shape.n;
  return (2 * (count * shape.key_bytes()).rounded_up(64) + 2 * (count * 4).rounded_up(64) + work_bytes(shape))
      .value();
}

SortBuffers sort_buffers(const SortShape& shape, std::byte* scratch) {
  const int64_t count = shape.rows * shape.n;
  const auto take = [&](int64_t bytes) { return std::exchange(scratch, scratch + (bytes + 63) / 64 * 64); };
  SortBuffers b;
  for (void*& keys : b.keys) keys = take(count * shape.key_bytes());
  for (uint32_t*& places : b.places) places = reinterpret_cast<uint32_t*>(take(count * 4));
  b.work = scratch;
  return b;
}

int radix_sort(const KernelContext& c, const SortShape& shape, const SortBuffers& buffers) {
  const int64_t count = shape.rows * shape.n;
  if (count == 0) return 0;
  for_each(c, count, FillPlaces{make_divisor(shape.n), is_small(count), buffers.places[0]});
  int result = 0;
  with_key(shape, [&](auto key) { result = sort_keys<typename decltype(key)::type>(c, shape, buffers); });
  return result;
}

}  // namespace genesis::cuda
