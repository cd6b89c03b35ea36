// Descriptions of matrices for the copy engine of Hopper chips, which moves boxes of them into shared memory.
// Made by the driver, on the host, from an address: kernels get them as parameters. Used by hopper_gemm.h's
// users and attention_gradient.cu.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace genesis::cuda {

// A row-major bf16 matrix, and the box that one copy moves. `columns` and `data` are multiples of 8 elements
// and 16 bytes.
struct BoxedMatrix {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int box_rows =
      0;  // of 64 columns, 128 bytes, whose 16-byte pieces are shuffled as the tensor cores read them
};

// Rows of heads of 64 bf16 elements, and the rows that one copy moves, laid out as above. Steps in elements,
// multiples of 8.
struct HeadsInBoxes {
  const void* data = nullptr;
  int64_t batch = 0, heads = 0, rows = 0;
  int64_t batch_step = 0, head_step = 0, row_step = 0;
  int box_rows = 0;
};

// A row-major bf16 matrix in boxes of up to 256 rows and columns that lie in shared memory as they are, one row behind the other.
// `columns`, `row_step` and `box_columns` are multiples of 8.
struct DenseBoxes {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0, row_step = 0;
  int box_rows = 0, box_columns = 0;
};

// Whether the driver makes these descriptions, the build has `kernel` for the current device, and that lets it have its
// shared memory. A kernel without code for the device is empty: it lacks its barriers. To be asked before the first start.
bool has_hopper_kernel(const void* kernel, size_t shared_bytes);

// What lies outside of the matrix is read as zero. False when the driver refuses.
bool make_tensor_map(const BoxedMatrix& matrix, CUtensorMap& map);
bool make_heads_map(const HeadsInBoxes& heads, CUtensorMap& map);
bool make_dense_map(const DenseBoxes& matrix, CUtensorMap& map);

}  // namespace genesis::cuda
