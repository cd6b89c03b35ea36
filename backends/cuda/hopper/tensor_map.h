// Tensor maps: descriptors of matrices for the TMA engine of Hopper chips, which copies boxes of them into shared
// memory. The driver makes them on the host from an address; kernels get them as parameters.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace genesis::cuda {

// A row-major bf16 matrix, and the box that one copy moves. `columns` is a multiple of 8 elements, and `data` of 16
// bytes.
struct BoxedMatrix {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int box_rows = 0;  // rows of 64 columns, 128 bytes, swizzled for the tensor cores
};

// Rows of heads of bf16 elements, and the number of rows that one copy moves, 64 elements of each, in the layout above.
// Strides are in elements and are multiples of 8.
struct HeadsInBoxes {
  const void* data = nullptr;
  int64_t batch = 0, heads = 0, rows = 0;
  int64_t batch_step = 0, head_step = 0, row_step = 0;
  int box_rows = 0;
  int64_t size = 64;  // elements of a row, a multiple of 64
};

// A row-major bf16 matrix in boxes of up to 256 rows and columns, which are dense and row-major in shared memory.
// `columns`, `row_step` and `box_columns` are multiples of 8.
struct DenseBoxes {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0, row_step = 0;
  int box_rows = 0, box_columns = 0;
};

// Returns whether the driver makes tensor maps, the build has code of `kernel` for the current device, and the device
// gives it enough shared memory. A kernel without code for the device is empty: it has no barriers. Must be called
// before the first launch.
bool has_hopper_kernel(const void* kernel, size_t shared_bytes);

// Elements outside of the matrix are read as zeros. Return false if the driver refuses.
bool make_tensor_map(const BoxedMatrix& matrix, CUtensorMap& map);
bool make_heads_map(const HeadsInBoxes& heads, CUtensorMap& map);
bool make_dense_map(const DenseBoxes& matrix, CUtensorMap& map);

}  // namespace genesis::cuda
