// A stable sort of rows of unsigned keys on the device, by CUB's radix sort. All rows are sorted in one call: the
// number of a key's row is stored in the bits above the key.
#pragma once

#include <bit>

#include "backends/cuda/device/number.h"
#include "backends/kernel.h"

namespace genesis::cuda {

using SortKey128 = unsigned __int128;

struct SortShape {
  int64_t rows = 1, n = 0;  // both < 2^31
  int key_bits = 32;        // number of a key's low bits that may be nonzero; at most 64

  int bits() const { return key_bits + std::bit_width(static_cast<uint64_t>(rows > 0 ? rows - 1 : 0)); }
  int key_bytes() const { return bits() <= 32 ? 4 : bits() <= 64 ? 8 : 16; }
};

int64_t sort_scratch_bytes(const SortShape& shape);

// The buffers of a sort in its scratch memory, which is aligned to 64 bytes.
struct SortBuffers {
  void* keys[2];        // [rows, n] of key_bytes(); the caller fills keys[0] with row_key()
  uint32_t* places[2];  // [rows, n]: the key's position in its row before the sort
  std::byte* work;      // CUB's scratch memory
};
SortBuffers sort_buffers(const SortShape& shape, std::byte* scratch);

// Sorts. Returns the index (0 or 1) of the keys[] and places[] that hold the result.
int radix_sort(const KernelContext& c, const SortShape& shape, const SortBuffers& buffers);

// Calls body(Tag<Key>) with the type of the shape's keys, which the caller knows to have kMinBytes to kMaxBytes
// bytes.
template <int kMinBytes = 4, int kMaxBytes = 16, class Body>
void with_key(const SortShape& shape, Body&& body) {
  if constexpr (kMinBytes <= 4)
    if (shape.key_bytes() == 4) return body(Tag<uint32_t>{});
  if constexpr (kMaxBytes > 8)
    if (shape.key_bytes() == 16) return body(Tag<SortKey128>{});
  body(Tag<uint64_t>{});
}

#ifdef __CUDACC__

// Returns a key of `key_bits` bits of row `row` in the form that the sort takes. If there is only one row, Key may
// have no bits left for the row's number.
template <class Key>
__device__ __forceinline__ Key row_key(int64_t row, uint64_t key, int key_bits) {
  const auto above = static_cast<Key>(row);
  return key_bits < 8 * static_cast<int>(sizeof(Key))
             ? static_cast<Key>(above << key_bits | static_cast<Key>(key))
             : static_cast<Key>(key);
}

#endif

}  // namespace genesis::cuda
