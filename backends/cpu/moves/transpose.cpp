// Matrix transpose, compiled once per instruction set so that squares are transposed in its widest registers.
#include "backends/cpu/moves/transpose.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/moves/transpose.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLineBytes = 64;
constexpr int64_t kRegisterBytes = hn::MaxLanes(hn::ScalableTag<uint8_t>()) > 16
                                       ? hn::MaxLanes(hn::ScalableTag<uint8_t>())
                                       : 16;  // the compiler's vector type needs at least 16 bytes

template <class T>
void transpose_plain(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                     int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
}

// Interleaves two vectors into a0 b0 a1 b1 ...: `low` from their lower halves, `high` from their upper ones.
template <class Lane, size_t... I>
HWY_INLINE void zip(Lane a, Lane b, Lane& low, Lane& high, std::index_sequence<I...>) {
  constexpr size_t kN = sizeof...(I);
  low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * kN)...);
  high = __builtin_shufflevector(a, b, (kN / 2 + I / 2 + I % 2 * kN)...);
}

// Transposes a square held in registers: log2(side) times, the first half of the rows is interleaved with the second half.
template <size_t kSide, class Lane>
HWY_INLINE void transpose_registers(Lane* rows) {
  for (size_t round = 1; round < kSide; round *= 2) {
    Lane next[kSide];
    for (size_t k = 0; k < kSide / 2; ++k)
      zip(rows[k], rows[k + kSide / 2], next[2 * k], next[2 * k + 1], std::make_index_sequence<kSide>());
    for (size_t k = 0; k < kSide; ++k) rows[k] = next[k];
  }
}

HWY_INLINE void put_line(void* to, const void* line, bool stream) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kStep = hn::MaxLanes(hn::ScalableTag<uint8_t>());
  const auto* from = static_cast<const uint8_t*>(line);
  auto* target = static_cast<uint8_t*>(to);
  if (!stream) return void(std::memcpy(to, line, kLineBytes));
  for (int64_t i = 0; i < kLineBytes; i += kStep) hn::Stream(hn::Load(d, from + i), d, target + i);
}

// Transposes kN x kN elements, where kN elements fill a cache line. Each line of the source is read at once and each line of the
// target written at once, so power-of-two strides, which map to few cache sets, do no harm.
template <class T>
HWY_INLINE void transpose_lines(T* to, int64_t to_stride, const T* from, int64_t from_stride, bool stream) {
  constexpr int64_t kN = kLineBytes / sizeof(T), kSide = kRegisterBytes / sizeof(T);
  typedef T Lane __attribute__((vector_size(kRegisterBytes)));
  alignas(64) T buffer[kN * kN];
  for (int64_t i = 0; i < kN; i += kSide) {
    for (int64_t j = 0; j < kN; j += kSide) {
      Lane rows[kSide];
      for (int64_t k = 0; k < kSide; ++k)
        std::memcpy(&rows[k], from + (i + k) * from_stride + j, sizeof(Lane));
      transpose_registers<kSide>(rows);
      for (int64_t k = 0; k < kSide; ++k) std::memcpy(buffer + (j + k) * kN + i, &rows[k], sizeof(Lane));
    }
  }
  for (int64_t j = 0; j < kN; ++j) put_line(to + j * to_stride, buffer + j * kN, stream);
}

// Transposes squares of whole cache lines, and the remaining edges element by element.
template <class T>
void transpose_any(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                   int64_t columns, bool stream) {
  constexpr int64_t kN = kLineBytes / sizeof(T);
  const int64_t whole_rows = rows / kN * kN, whole_columns = columns / kN * kN;
  stream = stream && reinterpret_cast<uintptr_t>(to) % kLineBytes == 0 && to_stride % kN == 0;
  for (int64_t i = 0; i < whole_rows; i += kN)
    for (int64_t j = 0; j < whole_columns; j += kN)
      transpose_lines(to + j * to_stride + i, to_stride, from + i * from_stride + j, from_stride, stream);
  if (stream) hwy::FlushStream();
  transpose_plain(to + whole_columns * to_stride, to_stride, from + whole_columns, from_stride, rows,
                  columns - whole_columns);
  transpose_plain(to + whole_rows, to_stride, from + whole_rows * from_stride, from_stride, rows - whole_rows,
                  whole_columns);
}

void transpose(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t rows,
               int64_t columns, int64_t element, bool stream) {
  const auto of = [&]<class T>(T) {
    transpose_any(static_cast<T*>(to), to_stride, static_cast<const T*>(from), from_stride, rows, columns,
                  stream);
  };
  switch (element) {
    case 1:
      return transpose_plain(static_cast<uint8_t*>(to), to_stride, static_cast<const uint8_t*>(from),
                             from_stride, rows, columns);
    case 2:
      return of(uint16_t{});
    case 4:
      return of(uint32_t{});
    default:
      return of(uint64_t{});
  }
}

void stream_bytes(void* to, const void* from, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kStep = hn::MaxLanes(hn::ScalableTag<uint8_t>());
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  const int64_t head = std::min<int64_t>(-reinterpret_cast<intptr_t>(to) & (kLineBytes - 1), bytes);
  std::memcpy(target, source, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kLineBytes <= bytes; i += kLineBytes)
    for (int64_t k = 0; k < kLineBytes; k += kStep)
      hn::Stream(hn::LoadU(d, source + i + k), d, target + i + k);
  std::memcpy(target + i, source + i, static_cast<size_t>(bytes - i));
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(transpose);
HWY_EXPORT(stream_bytes);

void transpose_tile(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t rows,
                    int64_t columns, int64_t element, bool stream) {
  HWY_DYNAMIC_DISPATCH(transpose)(to, to_stride, from, from_stride, rows, columns, element, stream);
}

void stream_copy(void* to, const void* from, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(to, from, bytes);
}

void flush_stream() { hwy::FlushStream(); }

}  // namespace genesis::cpu
#endif
