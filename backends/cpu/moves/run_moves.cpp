#include "backends/cpu/moves/run_moves.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/moves/transpose.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;  // bytes that one task moves
constexpr int64_t kTile = 256;              // rows and columns of one tile of a transpose
constexpr int64_t kStreamRow = 4096;        // bytes; for shorter rows memcpy measured as fast as streaming
constexpr int64_t kUncachedMoveBytes = 16 << 20;  // bytes; a larger result does not stay in the caches anyway

constexpr int64_t kShortRun = 256;  // bytes
constexpr int64_t kRunRows = 32;    // rows that processors fetch ahead at a time

// An element of sizeof(Word) bytes at any address, since a view may begin anywhere in its buffer.
template <class Word>
struct [[gnu::packed]] Unaligned {
  Word bits;
};
struct Word16 {
  uint64_t low, high;
};

template <class F>
void with_element(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(Unaligned<uint16_t>{});
    case 4:
      return f(Unaligned<uint32_t>{});
    case 8:
      return f(Unaligned<uint64_t>{});
    default:
      return f(Unaligned<Word16>{});
  }
}

template <class T>
void copy_row(T* to, int64_t to_stride, const T* from, int64_t stride, int64_t n) {
  if (to_stride != 1) {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * stride];
  } else if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(to, n, *from);
  } else if (stride == -1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[-i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

// Iterates over the leading axes like an odometer, beginning at a flat index.
struct Walker {
  const StridedCopy& copy;
  int axes;  // number of leading axes that are iterated over
  std::array<int64_t, kMaxRank> at{};
  int64_t to = 0, from = 0;

  Walker(const StridedCopy& c, int count, int64_t flat) : copy(c), axes(count) {
    for (int i = axes - 1; i >= 0; --i) {
      const auto k = static_cast<size_t>(i);
      at[k] = flat % copy.dims[k];
      flat /= copy.dims[k];
      to += at[k] * copy.to[k];
      from += at[k] * copy.from[k];
    }
  }
  void next() {
    for (int i = axes - 1; i >= 0; --i) {
      const auto k = static_cast<size_t>(i);
      to += copy.to[k];
      from += copy.from[k];
      if (++at[k] < copy.dims[k]) return;
      to -= at[k] * copy.to[k];
      from -= at[k] * copy.from[k];
      at[k] = 0;
    }
  }
};

int64_t product(const StridedCopy& copy, int axes) {
  int64_t n = 1;
  for (int i = 0; i < axes; ++i) n *= copy.dims[static_cast<size_t>(i)];
  return n;
}

// Tells whether short runs that lie side by side in the source are taken apart, such as the columns of a matrix that is packed.
bool separates_runs(const StridedCopy& c) {
  return c.rank == 3 && c.to[2] == 1 && c.from[2] == 1 && c.from[0] == c.dims[2] && c.from[1] > c.from[0] &&
         c.dims[2] * c.element <= kShortRun;
}

// Copies the runs of some rows of the source at a time, so that memory is read in its order.
template <class T>
void copy_separated(const StridedCopy& c, T* to, const T* from) {
  const int64_t runs = c.dims[0], rows = c.dims[1], n = c.dims[2], blocks = (rows + kRunRows - 1) / kRunRows;
  const int64_t run_bytes = std::min(rows, kRunRows) * n * static_cast<int64_t>(sizeof(T));
  const int64_t part = std::min(runs, std::max<int64_t>(1, kChunkBytes / run_bytes));  // runs of one task
  const int64_t parts = (runs + part - 1) / part;
  parallel_rows(blocks * parts, part * run_bytes, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      const int64_t row_begin = i / parts * kRunRows, run_begin = i % parts * part;
      for (int64_t run = run_begin; run < std::min(runs, run_begin + part); ++run)
        for (int64_t row = row_begin; row < std::min(rows, row_begin + kRunRows); ++row)
          std::memcpy(to + run * c.to[0] + row * c.to[1], from + run * c.from[0] + row * c.from[1],
                      static_cast<size_t>(n) * sizeof(T));
    }
  });
}

template <class T>
void copy_rows(const StridedCopy& c, T* to, const T* from) {
  if (c.rank == 0) return void(*to = *from);
  if (separates_runs(c)) return copy_separated(c, to, from);
  const auto last = static_cast<size_t>(c.rank - 1);
  const int64_t rows = product(c, c.rank - 1), n = c.dims[last], stride = c.from[last];
  const auto elements = static_cast<int64_t>(kChunkBytes / sizeof(T));
  const int64_t chunks = n > 2 * elements ? (n + elements - 1) / elements : 1;  // chunks per row
  const int64_t chunk = chunks == 1 ? n : elements;
  const bool stream = c.to[last] == 1 && stride == 1 && n * int64_t{sizeof(T)} >= kStreamRow &&
                      rows * n * int64_t{sizeof(T)} >= kUncachedMoveBytes;
  parallel_rows(rows * chunks, chunk * static_cast<int64_t>(sizeof(T)), [&](int64_t first, int64_t end) {
    Walker walker(c, c.rank - 1, first / chunks);
    for (int64_t i = first; i < end; ++i) {
      const int64_t start = i % chunks * chunk, length = std::min(chunk, n - start);
      if (stream)
        stream_copy(to + walker.to + start, from + walker.from + start, length * int64_t{sizeof(T)});
      else
        copy_row(to + walker.to + start * c.to[last], c.to[last], from + walker.from + start * stride, stride,
                 length);
      if (i % chunks == chunks - 1) walker.next();
    }
    if (stream) flush_stream();
  });
}

// Copies by square tiles in the case that the last axis of the target is strided in the source, whose contiguous axis is another
// one.
template <class T>
void copy_transposed(const StridedCopy& c, T* to, const T* from) {
  StridedCopy outer = c;  // the axes other than these two
  const auto wide = static_cast<size_t>(c.transposed), last = static_cast<size_t>(c.rank - 1);
  for (size_t i = wide; i + 1 < last; ++i) {
    outer.dims[i] = c.dims[i + 1], outer.to[i] = c.to[i + 1], outer.from[i] = c.from[i + 1];
  }
  const int64_t columns = c.dims[wide], rows = c.dims[last];  // size of the source, seen as a matrix
  const int64_t row_tiles = (rows + kTile - 1) / kTile, column_tiles = (columns + kTile - 1) / kTile;
  const int64_t tiles = row_tiles * column_tiles, matrices = product(outer, c.rank - 2);
  const int64_t tile_bytes = std::min(rows, kTile) * std::min(columns, kTile) * int64_t{sizeof(T)};
  const bool stream = matrices * rows * columns * int64_t{sizeof(T)} >= kUncachedMoveBytes;
  parallel_rows(matrices * tiles, tile_bytes, [&](int64_t first, int64_t end) {
    Walker walker(outer, c.rank - 2, first / tiles);
    for (int64_t i = first; i < end; ++i) {
      const int64_t row = i % tiles / column_tiles * kTile, column = i % tiles % column_tiles * kTile;
      transpose_tile(to + walker.to + column * c.to[wide] + row, c.to[wide],
                     from + walker.from + row * c.from[last] + column, c.from[last],
                     std::min(kTile, rows - row), std::min(kTile, columns - column), sizeof(T), stream);
      if (i % tiles == tiles - 1) walker.next();
    }
  });
}

}  // namespace

void run_strided_copy(const StridedCopy& c, void* to, const void* from) {
  if (c.empty) return;
  with_element(c.element, [&]<class T>(T) {
    T* target = reinterpret_cast<T*>(static_cast<std::byte*>(to) + c.to_offset);
    const T* source = reinterpret_cast<const T*>(static_cast<const std::byte*>(from) + c.from_offset);
    if constexpr (sizeof(T) <= 8)
      if (c.transposed >= 0) return copy_transposed(c, target, source);
    copy_rows(c, target, source);
  });
}

void run_moves(const KernelContext& c) {
  const auto& prepared = c.prepared<Moves>();
  for (const Moves::Move& move : prepared.moves) {
    const void* from = move.input == Moves::kPattern ? prepared.pattern.data() : c.input(move.input).data;
    run_strided_copy(move.copy, c.output(move.output).data, from);
  }
}

void fill_elements(void* to, const void* value, int64_t element, int64_t count) {
  with_element(element, [&]<class T>(T) {
    T pattern;
    std::memcpy(&pattern, value, sizeof(T));
    parallel_ranges(count, static_cast<int64_t>(kInlineBytes / sizeof(T)), [&](int64_t first, int64_t end) {
      std::fill(static_cast<T*>(to) + first, static_cast<T*>(to) + end, pattern);
    });
  });
}

}  // namespace genesis::cpu
