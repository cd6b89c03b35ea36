#include "backends/cpu/transpose.h"

#include <cstring>
#include <utility>

namespace genesis::cpu {
namespace {

template <class T>
void transpose_plain(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                     int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
}

// kLine x kLine elements, where a cache line holds kLine: each line of the source is read in one go, and each
// line of the target written in one go, whatever the strides do to the sets of the cache.
template <class T>
inline constexpr int64_t kLine = static_cast<int64_t>(64 / sizeof(T));

// a0 b0 a1 b1 ... of the lower or upper halves of two vectors.
template <class Lane, size_t... I>
void zip(Lane a, Lane b, Lane& low, Lane& high, std::index_sequence<I...>) {
  constexpr size_t kN = sizeof...(I);
  low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * kN)...);
  high = __builtin_shufflevector(a, b, (kN / 2 + I / 2 + I % 2 * kN)...);
}

// Zipping the upper half of the rows with the lower half log2(side) times is a transpose.
template <size_t kSide, class Lane>
void transpose_registers(Lane* rows) {
  for (size_t round = 1; round < kSide; round *= 2) {
    Lane next[kSide];
    for (size_t k = 0; k < kSide / 2; ++k)
      zip(rows[k], rows[k + kSide / 2], next[2 * k], next[2 * k + 1], std::make_index_sequence<kSide>());
    for (size_t k = 0; k < kSide; ++k) rows[k] = next[k];
  }
}

template <class T>
void transpose_lines(T* to, int64_t to_stride, const T* from, int64_t from_stride) {
  constexpr int64_t kSide = 16 / sizeof(T), kN = kLine<T>;  // lanes of 16 bytes
  typedef T Lane __attribute__((vector_size(16)));
  alignas(64) T buffer[kN * kN];
  for (int64_t i = 0; i < kN; i += kSide) {
    for (int64_t j = 0; j < kN; j += kSide) {
      Lane rows[kSide];
      for (int64_t k = 0; k < kSide; ++k) std::memcpy(&rows[k], from + (i + k) * from_stride + j, 16);
      transpose_registers<kSide>(rows);
      for (int64_t k = 0; k < kSide; ++k) std::memcpy(buffer + (j + k) * kN + i, &rows[k], 16);
    }
  }
  for (int64_t j = 0; j < kN; ++j) std::memcpy(to + j * to_stride, buffer + j * kN, 64);
}

// By blocks of whole lines; what is left over at the edges element by element.
template <class T>
void transpose_any(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                   int64_t columns) {
  constexpr int64_t kN = kLine<T>;
  const int64_t whole_rows = rows / kN * kN, whole_columns = columns / kN * kN;
  for (int64_t i = 0; i < whole_rows; i += kN)
    for (int64_t j = 0; j < whole_columns; j += kN)
      transpose_lines(to + j * to_stride + i, to_stride, from + i * from_stride + j, from_stride);
  transpose_plain(to + whole_columns * to_stride, to_stride, from + whole_columns, from_stride, rows,
                  columns - whole_columns);
  transpose_plain(to + whole_rows, to_stride, from + whole_rows * from_stride, from_stride, rows - whole_rows,
                  whole_columns);
}

}  // namespace

void transpose_tile(uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns) {
  transpose_plain(to, to_stride, from, from_stride, rows, columns);
}

void transpose_tile(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns) {
  transpose_any(to, to_stride, from, from_stride, rows, columns);
}

void transpose_tile(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns) {
  transpose_any(to, to_stride, from, from_stride, rows, columns);
}

void transpose_tile(uint64_t* to, int64_t to_stride, const uint64_t* from, int64_t from_stride, int64_t rows,
                    int64_t columns) {
  transpose_any(to, to_stride, from, from_stride, rows, columns);
}

}  // namespace genesis::cpu
