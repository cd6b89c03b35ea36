// The inner loops of convolutions and pooling in f32, chosen for this CPU: products of weights as they lie in memory by packed
// columns, and combinations of shifted planes.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/convolution/planes.h"

namespace genesis::cpu {

// y = activation(scale * sum + bias + addend); null: 1, 0, 0.
struct Epilogue {
  const float *scale = nullptr, *bias = nullptr;  // one for each row
  const float* addend = nullptr;                  // laid out as the result
  ConvolutionActivation activation = ConvolutionActivation::kNone;

  // Returns the epilogue of rows from `row` on, whose results lie `elements` behind.
  Epilogue behind(int64_t row, int64_t elements) const {
    return {scale ? scale + row : nullptr, bias ? bias + row : nullptr, addend ? addend + elements : nullptr,
            activation};
  }
};

// c[i][j] = sum over p < depth of a[i * lda + p] * b[p * vectors * lanes + j], added to c with `add`.
struct ColumnTileProduct {
  int64_t depth = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  int rows = 0;  // at most TileFunctions::rows
  const float* b = nullptr;
  int vectors = 0;      // at most kMaxVectors
  int64_t columns = 0;  // columns of c: more than (vectors - 1) * lanes, at most vectors * lanes
  float* c = nullptr;
  int64_t ldc = 0;
  bool add = false;
  const Epilogue* epilogue = nullptr;  // null: more terms follow
  const float* next = nullptr;  // `rows` rows that are multiplied next, prefetched meanwhile; null: none
};

// The columns of a product: column j of term k is the element of channel k / taps that tap k % taps meets at position j.
struct ColumnSource {
  const float* planes = nullptr;
  int64_t channel = 0;              // elements from channel to channel
  std::span<const int64_t> taps{};  // offsets into the planes of a channel
  bool is_exact = false;            // nothing behind the last element of a run may be read
};

struct TileFunctions {
  int rows = 0, lanes = 0;
  void (*multiply)(const ColumnTileProduct&) = nullptr;
  // The same for few columns, whose terms lie side by side: b[j * ldb + p]. `vectors` is not read.
  void (*dots)(const ColumnTileProduct&, int64_t ldb) = nullptr;
  // Packs terms [k, k + depth) of the runs' positions; to[p * width + j]. Writes up to a vector behind the last element.
  void (*pack)(const ColumnSource& source, std::span<const Run> runs, int64_t k, int64_t depth, int64_t width,
               float* to) = nullptr;
  // to[i] = sum over t of weights[t] * planes[taps[t] + i], or the greatest of planes[taps[t] + i], for i < count. Reads and writes
  // up to four vectors more.
  void (*sum)(const float* planes, std::span<const int64_t> taps, const float* weights, int64_t count,
              float* to) = nullptr;
  void (*greatest)(const float* planes, std::span<const int64_t> taps, int64_t count, float* to) = nullptr;
  // Applies the epilogue of one row to n elements.
  void (*finish)(const float* sums, const Epilogue& epilogue, int64_t n, float* y) = nullptr;
};

inline constexpr int kMaxVectors = 3;

TileFunctions tile_functions();

}  // namespace genesis::cpu
