// One operand of a packed product as packing sees it: its memory layout, and prefetching of the rows or columns that are packed
// next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm/gemm_kernels.h"

namespace genesis::cpu {

struct Range {
  int64_t begin = 0, size = 0;
};

// Memory that will be read next. It is prefetched a few cache lines at a time while a core computes, so that it is in the L2
// cache when it is needed.
class LinesAhead {
 public:
  LinesAhead() = default;  // nothing to prefetch
  // `rows` rows of `row_bytes` each, `stride` bytes apart.
  LinesAhead(const std::byte* data, int64_t rows, int64_t row_bytes, int64_t stride)
      : row_(data), rows_(rows), row_bytes_(row_bytes), stride_(stride) {}

  int64_t lines() const { return rows_ * ((row_bytes_ + kLine - 1) / kLine); }

  void fetch(int64_t lines) {
    for (; lines > 0 && rows_ > 0; --lines) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += kLine;
      if (at_ < row_bytes_) continue;
      at_ = 0;
      row_ += stride_;
      --rows_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const std::byte* row_ = nullptr;
  int64_t rows_ = 0, row_bytes_ = 0, stride_ = 0, at_ = 0;
};

// An operand as lines: rows of op(A) or columns of op(B), each of length k.
struct Operand {
  PackFunction pack = nullptr;
  int64_t element_bytes = 0;  // bytes of a source element
  int64_t stride = 0;         // elements from line to line, or from p to p if k is not contiguous
  int64_t batch_stride = 0;
  bool k_contiguous = true;

  const std::byte* at(const void* base, int64_t batch, int64_t line, int64_t p) const {
    const int64_t offset = k_contiguous ? line * stride + p : p * stride + line;
    return static_cast<const std::byte*>(base) + (batch * batch_stride + offset) * element_bytes;
  }
  LinesAhead ahead(const void* base, int64_t batch, const Range& lines, const Range& k) const {
    return {at(base, batch, lines.begin, k.begin), k_contiguous ? lines.size : k.size,
            (k_contiguous ? k.size : lines.size) * element_bytes, stride * element_bytes};
  }
};

}  // namespace genesis::cpu
