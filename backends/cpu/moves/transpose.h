// Transposes one tile of a matrix, by squares of whole cache lines; also copies with non-temporal stores.
#pragma once

#include <cstdint>

namespace genesis::cpu {

// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns. Strides count elements of `element` bytes: 1, 2, 4
// or 8. `stream` writes around the caches, for results that are larger than they are.
void transpose_tile(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t rows,
                    int64_t columns, int64_t element, bool stream);

// Like memcpy, but with non-temporal stores, for a result larger than the caches. Other threads see the data after
// flush_stream().
void stream_copy(void* to, const void* from, int64_t bytes);
void flush_stream();

}  // namespace genesis::cpu
