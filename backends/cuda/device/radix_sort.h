// A stable sort of rows of unsigned keys on the device, by 8 bits a pass; each pass counts, adds up and
// moves. Used by the kernels of sort, topk, multinomial and of everything that writes by index in order.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

struct SortShape {
  int64_t rows = 1, n = 0;  // n < 2^31
  int key_bytes = 4;        // 4 or 8
  int bits = 32;            // of a key, from the lowest, that are not always 0
};

int64_t sort_scratch_bytes(const SortShape& shape);

// Where things lie in the scratch memory, which is aligned to 64 bytes.
struct SortBuffers {
  void* keys[2];        // [rows, n]; the caller fills keys[0]
  uint32_t* places[2];  // [rows, n]: where each key stood in its row
  uint32_t *counts, *totals;
};
SortBuffers sort_buffers(const SortShape& shape, std::byte* scratch);

// Which of keys[] and places[] hold the result.
int radix_sort(const KernelContext& c, const SortShape& shape, const SortBuffers& buffers);

}  // namespace genesis::cuda
