// One tile of a matrix transpose, through a buffer of whole cache lines. Used by strided copies.
#pragma once

#include <cstdint>

namespace genesis::cpu {

inline constexpr int64_t kTransposeTile = 64;  // rows and columns of one call at most

// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns; strides in elements.
void transpose_tile(uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns);
void transpose_tile(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns);
void transpose_tile(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns);
void transpose_tile(uint64_t* to, int64_t to_stride, const uint64_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns);

}  // namespace genesis::cpu
