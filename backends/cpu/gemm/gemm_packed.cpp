// The packed matrix product (after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). All threads
// pack B into scratch memory, one chunk at a time; then each tile of C is one task, which packs the rows of A that it needs, so
// that they stay in its L2. If B would be packed for few rows or little depth, the roles are swapped: all of A is packed into
// scratch memory, and a task packs the columns of B for a high and narrow tile, so that B never goes to memory a second time.
// Invariant: chunks, tiles and the order of sums over k follow from the problem alone.
#include "backends/cpu/gemm/gemm_implementations.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_task_grid.h"
#include "schema/core/error.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kScratchTarget = 16 << 20;  // bytes of B packed at a time: fits a last-level cache
constexpr int64_t kMinChunkColumns = 1024;    // with fewer, packing A again for each chunk costs too much
constexpr int64_t kMinChunkDepth = 512;
constexpr int64_t kMaxChunkRows = 4096;  // only if k is sliced and sums are kept in scratch memory
constexpr int64_t kPackedA = 290 << 10;  // most bytes that a task packs at a time, on its stack
constexpr int64_t kBlockBytes = 2048;    // bytes of a row that a task packs at a time: 512 steps of 4 bytes
constexpr int64_t kMaxTileColumns = 512;
constexpr int64_t kPanelPadding = 16 * 17;                  // elements: 17 cache lines
constexpr int64_t kMaxTileBytes = 130 << 10;                // sums of one tile, also on the task's stack
constexpr int64_t kHighTileRows = 512, kManyColumns = 768;  // for products whose tasks pack B
constexpr double kAloneFlops = 1.5e6;                       // computed before other threads are awake
constexpr double kTaskFlops = 1e5;                          // cost of starting a task
constexpr int64_t kPieceBytes = 64 << 10;                   // bytes of B that one task packs

// The range of the product that is computed between two barriers.
struct Chunk {
  Range batch, rows, columns, depth;
};

class PackedGemm final : public Gemm {
 public:
  PackedGemm(const char* name, const GemmProblem& problem, const MicroKernel& kernel);

  int64_t scratch_bytes() const override { return (CheckedSize(plane_offset_) + plane_bytes_).value(); }
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
           const void* addend) const override;

 private:
  // The rectangle of C that one task computes.
  struct Tile {
    int64_t entry;  // index within the chunk's batch
    Range batch, rows, columns;
    std::byte* sums;                  // buffer of tile_m_ x tile_n_
    const std::byte* bias = nullptr;  // bias of its columns, in the accumulator's type
    LinesAhead next = {};             // rows of A that the next tile packs first
  };
  // The rectangle of a tile that the kernel computes at once: its first row and column, and its panels.
  struct RegisterTile {
    int64_t i, j;
    const std::byte *a, *b;
  };
  // Panels for one block of k, and the data to prefetch meanwhile.
  struct Block {
    const std::byte *a, *b;
    int64_t stride_b, k;
    bool is_first, is_last;  // first or last block of k
    LinesAhead next;
  };
  struct Sums {
    std::byte* data;
    int64_t stride;
  };

  void choose_tile();
  void choose_chunk();
  void choose_high_tiles();
  double cost_of_tile(int64_t tile_m, int64_t tile_n) const;
  int64_t panel_stride(int width, int64_t k) const;  // packed elements
  int64_t packed_panels(int64_t lines, int lines_each, int width,
                        int64_t k) const;  // bytes, a multiple of 64
  int64_t packed_bytes(int64_t lines, int width, int64_t k) const {
    return packed_panels(lines, width, width, k);
  }
  int64_t packed_a_bytes() const { return packed_panels(tile_m_, kernel_.mr, kernel_.width_a, block_k()); }

  bool wants_tasks_to_pack_b() const;
  // Sums may start from the addend if only a bias follows them.
  bool sums_fit_in_c() const {
    const GemmProblem& p = problem_;
    return p.c == accumulator() && (!p.accumulate || (p.alpha == 1 && p.activation == Activation::kNone));
  }
  int64_t block_k() const { return kBlockBytes / kernel_.element_bytes() * kernel_.k_per_step(); }
  int64_t stride_of_a(const Block& block) const {  // bytes from panel to panel
    return panel_stride(kernel_.width_a, block.k) * kernel_.element_bytes();
  }
  int64_t block_a_bytes(int64_t k) const { return packed_panels(problem_.m, kernel_.mr, kernel_.width_a, k); }
  void run_high_tiles(const GemmCall& call) const;
  void pack_a(const GemmCall& call) const;
  void compute_high_tile(const GemmCall& call, int64_t index) const;
  void run_chunk(const GemmCall& call, const Chunk& chunk) const;
  void pack_b(const GemmCall& call, const Chunk& chunk) const;
  void compute_tile(const GemmCall& call, const Chunk& chunk, const TileGrid& grid, int64_t index) const;
  void multiply_tile(const GemmCall& call, const Chunk& chunk, const Tile& tile) const;
  void multiply_down(const GemmCall& call, const Tile& tile, Block block) const;
  void multiply_along(const GemmCall& call, const Tile& tile, Block block) const;
  void multiply(const GemmCall& call, const Tile& tile, const Block& block, const RegisterTile& part) const;
  Sums sums_at(const GemmCall& call, const Tile& tile, int64_t i, int64_t j, bool stay) const;
  bool lies_in_c(const Tile& tile, int64_t i, int64_t j) const {
    return in_place_ && i + kernel_.mr <= tile.rows.size && j + kernel_.nr <= tile.columns.size;
  }
  void copy_addend(const GemmCall& call, const Tile& tile, int64_t i, int64_t j) const;
  void prefetch_c(const GemmCall& call, const Tile& tile, int64_t i, int64_t j) const;
  LinesAhead lines_of_b(const GemmCall& call, int64_t index, int64_t k) const;
  LinesAhead first_rows_of_a(const GemmCall& call, const Chunk& chunk, const TileGrid& grid,
                             int64_t index) const;
  LinesAhead rows_of_a(const GemmCall& call, int64_t batch, const Range& rows, const Range& depth,
                       int64_t k) const;
  const std::byte* bias_of(const GemmCall& call, const Range& columns, std::byte* converted) const;
  void finish(const GemmCall& call, const Tile& tile, int64_t i, int64_t j, const Sums& sums) const;

  int64_t offset_in_c(const Tile& tile, int64_t i, int64_t j) const;  // bytes
  std::byte* c_at(const GemmCall& call, const Tile& tile, int64_t i, int64_t j) const {
    return static_cast<std::byte*>(call.c) + offset_in_c(tile, i, j);
  }
  DType accumulator() const { return wide_dtype(kernel_.packed); }

  GemmProblem problem_;
  MicroKernel kernel_;
  Operand a_, b_;
  EpilogueFunction epilogue_ = nullptr;
  int64_t sum_bytes_ = 4, c_bytes_ = 4;
  bool alone_ = false;         // so small that the calling thread does it all
  bool in_place_ = false;      // C is its own accumulator
  bool tasks_pack_b_ = false;  // true if tasks pack B and A is packed as a whole
  int64_t tile_m_ = 0, tile_n_ = 0;
  int64_t chunk_batch_ = 1, chunk_m_ = 0, chunk_n_ = 0, chunk_k_ = 0;
  int64_t plane_offset_ = 0,
          plane_bytes_ = 0;  // sums between slices of k, behind the panels of B in scratch
};

PackedGemm::PackedGemm(const char* name, const GemmProblem& p, const MicroKernel& kernel)
    : Gemm(name), problem_(p), kernel_(kernel) {
  const auto bytes = [](DType type) { return static_cast<int64_t>(size_of(type)); };
  a_ = {pack_function_a(p.a, kernel, !p.transpose_a), bytes(p.a), p.lda, p.stride_a, !p.transpose_a};
  b_ = {pack_function_b(p.b, kernel, p.transpose_b), bytes(p.b), p.ldb, p.stride_b, p.transpose_b};
  epilogue_ = epilogue_function(accumulator(), p.c);
  sum_bytes_ = bytes(accumulator());
  c_bytes_ = bytes(p.c);
  alone_ = flops_of(p) < kAloneFlops;
  tasks_pack_b_ = wants_tasks_to_pack_b();
  if (tasks_pack_b_) {
    choose_high_tiles();
  } else {
    choose_tile();
    choose_chunk();
    GENESIS_ASSERT(packed_a_bytes() <= kPackedA && tile_m_ * tile_n_ * sum_bytes_ <= kMaxTileBytes);
  }
}

// The padding keeps panels of 2^n steps from falling into the same cache sets.
int64_t PackedGemm::panel_stride(int width, int64_t k) const {
  return ((CheckedSize(kernel_.depth(k)) * width).rounded_up(16) + kPanelPadding).value();
}

int64_t PackedGemm::packed_panels(int64_t lines, int lines_each, int width, int64_t k) const {
  return (CheckedSize(lines).divided_up(lines_each) * panel_stride(width, k) * kernel_.element_bytes())
      .value();
}

// Returns the estimated relative time: wide tiles pack A less often, high ones fetch B less often, many tiles balance the work,
// and large ones are worth a task.
double PackedGemm::cost_of_tile(int64_t tile_m, int64_t tile_n) const {
  const GemmProblem& p = problem_;
  const auto real = [](int64_t count) { return static_cast<double>(count); };  // sizes may be extreme
  const double tiles = real(p.batch) * real(ceil_div(p.m, tile_m)) * real(ceil_div(p.n, tile_n));
  const double traffic = 1 + 5.0 / static_cast<double>(tile_n) + 1.5 / static_cast<double>(tile_m);
  const double task = 1 + kTaskFlops / (2.0 * real(tile_m * tile_n) * real(std::max<int64_t>(p.k, 1)));
  return traffic * task * (alone_ ? 1 : 1 + 3.0 / tiles);
}

void PackedGemm::choose_tile() {
  double best = 0;
  for (int64_t tile_m = kernel_.mr; tile_m <= kernel_.max_tile_rows; tile_m *= 2) {
    for (int64_t tile_n = kernel_.nr; tile_n <= kMaxTileColumns; tile_n *= 2) {
      const double cost = cost_of_tile(tile_m, tile_n);
      if (tile_m * tile_n * sum_bytes_ > kMaxTileBytes || (best != 0 && cost >= best)) continue;
      best = cost;
      tile_m_ = tile_m;
      tile_n_ = tile_n;
    }
  }
}

void PackedGemm::choose_chunk() {
  const GemmProblem& p = problem_;
  const int64_t line_bytes = std::max<int64_t>(1, kernel_.depth(p.k) * kernel_.element_bytes());
  const int64_t columns = std::max(kMinChunkColumns, kScratchTarget / line_bytes);
  chunk_n_ = round_up(ceil_div(p.n, ceil_div(p.n, columns)), tile_n_);
  const int64_t slices = ceil_div(std::min(chunk_n_, p.n) * line_bytes, 2 * kScratchTarget);
  chunk_k_ = round_up(std::max(kMinChunkDepth, ceil_div(p.k, slices)), 2);
  const bool sliced = chunk_k_ < p.k;
  chunk_m_ = round_up(sliced ? std::min(p.m, kMaxChunkRows) : p.m, tile_m_);

  const int64_t bytes_b = packed_bytes(std::min(chunk_n_, p.n), kernel_.nr, std::min(chunk_k_, p.k));
  chunk_batch_ =
      p.stride_b == 0 && !sliced ? p.batch : std::clamp<int64_t>(kScratchTarget / bytes_b, 1, p.batch);
  plane_offset_ = (CheckedSize(p.stride_b == 0 ? 1 : chunk_batch_) * bytes_b).value();
  plane_bytes_ = sliced ? (CheckedSize(chunk_batch_) * chunk_m_ * chunk_n_ * sum_bytes_).value() : 0;
  in_place_ = sums_fit_in_c() && !sliced;
}

// With more rows and more than one block of k, narrow tiles lose more by adding to C than they gain.
bool PackedGemm::wants_tasks_to_pack_b() const {
  const GemmProblem& p = problem_;
  const bool once = p.m <= kHighTileRows || p.k <= block_k();
  const CheckedSize all_of_a =
      CheckedSize(p.k).divided_up(block_k()) * block_a_bytes(std::min(p.k, block_k()));
  return once && p.batch == 1 && p.n >= kManyColumns && !alone_ && all_of_a <= kScratchTarget;
}

// Scratch memory holds A, one block of k after the other.
void PackedGemm::choose_high_tiles() {
  tile_m_ = round_up(ceil_div(problem_.m, ceil_div(problem_.m, kHighTileRows)), kernel_.mr);
  tile_n_ = 2 * kernel_.nr;
  in_place_ = sums_fit_in_c();
  plane_offset_ = (CheckedSize(problem_.k).divided_up(block_k()) * block_a_bytes(block_k())).value();
  GENESIS_ASSERT(packed_bytes(tile_n_, kernel_.nr, block_k()) <= kPackedA);
  GENESIS_ASSERT(tile_m_ * tile_n_ * sum_bytes_ <= kMaxTileBytes);
}

void PackedGemm::run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
                     const void* addend) const {
  const GemmProblem& p = problem_;
  const GemmCall call{a, b, c, bias, scratch, addend_of(p, c, addend)};
  if (tasks_pack_b_) return run_high_tiles(call);
  for (int64_t batch = 0; batch < p.batch; batch += chunk_batch_) {
    for (int64_t i = 0; i < p.m; i += chunk_m_) {
      for (int64_t j = 0; j < p.n; j += chunk_n_) {
        int64_t k = 0;
        do {
          run_chunk(call, {range_at(batch, chunk_batch_, p.batch), range_at(i, chunk_m_, p.m),
                           range_at(j, chunk_n_, p.n), range_at(k, chunk_k_, p.k)});
          k += chunk_k_;
        } while (k < p.k);
      }
    }
  }
}

void PackedGemm::run_high_tiles(const GemmCall& call) const {
  pack_a(call);
  for_each_task(alone_, ceil_div(problem_.m, tile_m_) * ceil_div(problem_.n, tile_n_),
                [&](int64_t index) { compute_high_tile(call, index); });
}

void PackedGemm::pack_a(const GemmCall& call) const {
  const int64_t piece = 2 * kernel_.mr, pieces = ceil_div(problem_.m, piece);
  for_each_task(alone_, ceil_div(problem_.k, block_k()) * pieces, [&](int64_t index) {
    const int64_t row = index % pieces * piece, block = index / pieces, k = block * block_k();
    const int64_t now = std::min(block_k(), problem_.k - k);
    a_.pack(a_.at(call.a, 0, row, k), a_.stride, std::min(piece, problem_.m - row), now,
            call.scratch + block * block_a_bytes(block_k()) +
                packed_panels(row, kernel_.mr, kernel_.width_a, now),
            panel_stride(kernel_.width_a, now));
  });
}

void PackedGemm::compute_high_tile(const GemmCall& call, int64_t index) const {
  const int64_t columns = ceil_div(problem_.n, tile_n_);
  const int64_t row = index / columns * tile_m_, column = index % columns * tile_n_;
  alignas(kAlignment) std::byte sums[kMaxTileBytes], b[kPackedA], bias[kMaxTileColumns * 8];
  Tile tile{0, {0, 1}, range_at(row, tile_m_, problem_.m), range_at(column, tile_n_, problem_.n), sums};
  tile.bias = bias_of(call, tile.columns, bias);
  int64_t k = 0;
  do {
    const int64_t now = std::min(block_k(), problem_.k - k), stride_b = panel_stride(kernel_.nr, now);
    b_.pack(b_.at(call.b, 0, column, k), b_.stride, tile.columns.size, now, b, stride_b);
    const std::byte* a = call.scratch + k / block_k() * block_a_bytes(block_k()) +
                         packed_panels(row, kernel_.mr, kernel_.width_a, now);
    const bool is_last = k + now == problem_.k;
    multiply_along(call, tile,
                   {a, b, stride_b * kernel_.element_bytes(), now, k == 0, is_last,
                    is_last ? lines_of_b(call, index + 1, 0) : lines_of_b(call, index, k + now)});
    k += now;
  } while (k < problem_.k);
}

// Returns the columns of B that high tile `index` packs from k on, to prefetch them; nothing after the last tile.
LinesAhead PackedGemm::lines_of_b(const GemmCall& call, int64_t index, int64_t k) const {
  const int64_t columns = ceil_div(problem_.n, tile_n_), column = index % columns * tile_n_;
  if (index >= columns * ceil_div(problem_.m, tile_m_)) return {};
  return b_.ahead(call.b, 0, range_at(column, tile_n_, problem_.n), range_at(k, block_k(), problem_.k));
}

void PackedGemm::run_chunk(const GemmCall& call, const Chunk& chunk) const {
  pack_b(call, chunk);
  const TileGrid grid{chunk.rows, chunk.columns, tile_m_, tile_n_};
  for_each_task(alone_, chunk.batch.size * grid.tiles(),
                [&](int64_t index) { compute_tile(call, chunk, grid, index); });
}

void PackedGemm::pack_b(const GemmCall& call, const Chunk& chunk) const {
  const Range batch = b_.batch_stride == 0 ? Range{0, 1} : chunk.batch;
  const Range &lines = chunk.columns, &depth = chunk.depth;
  const int64_t width = kernel_.nr, element = kernel_.element_bytes(),
                stride = panel_stride(kernel_.nr, depth.size);
  const int64_t entry_bytes = packed_bytes(lines.size, kernel_.nr, depth.size);
  const int64_t depth_steps = std::max<int64_t>(1, depth.size);
  // Each task reads long runs of the source: along k if k is contiguous, else across many lines.
  const int64_t run = std::max<int64_t>(1, kPieceBytes / (width * element));  // steps of one panel
  const int64_t panels =
      b_.k_contiguous ? std::max<int64_t>(1, run / depth_steps) : std::max<int64_t>(1, 512 / width);
  const int64_t piece_lines = panels * width;
  const int64_t piece_k = std::max<int64_t>(32, round_up(kPieceBytes / (piece_lines * element), 2));
  const int64_t line_pieces = ceil_div(lines.size, piece_lines), k_pieces = ceil_div(depth.size, piece_k);
  for_each_task(alone_, batch.size * line_pieces * k_pieces, [&](int64_t index) {
    const int64_t line = index / k_pieces % line_pieces * piece_lines, k = index % k_pieces * piece_k;
    const int64_t entry = index / k_pieces / line_pieces;
    const int64_t offset = line / width * stride + kernel_.depth(k) * width;
    b_.pack(b_.at(call.b, batch.begin + entry, lines.begin + line, depth.begin + k), b_.stride,
            std::min(piece_lines, lines.size - line), std::min(piece_k, depth.size - k),
            call.scratch + entry * entry_bytes + offset * element, stride);
  });
}

void PackedGemm::compute_tile(const GemmCall& call, const Chunk& chunk, const TileGrid& grid,
                              int64_t index) const {
  const TileGrid::Cell cell = grid.at(index);
  // This task waits for no other, so TBB cannot start another one on top of this stack frame.
  alignas(kAlignment) std::byte on_stack[kMaxTileBytes], bias[kMaxTileColumns * 8];
  const int64_t tile_bytes = tile_m_ * tile_n_ * sum_bytes_;
  Tile tile{cell.entry,
            {chunk.batch.begin + cell.entry, 1},
            cell.rows,
            cell.columns,
            plane_bytes_ ? call.scratch + plane_offset_ + index * tile_bytes : on_stack};
  tile.bias = bias_of(call, tile.columns, bias);
  tile.next = first_rows_of_a(call, chunk, grid, index + 1);
  multiply_tile(call, chunk, tile);
}

// Returns the rows of A that tile `index` of a chunk packs first, to prefetch them; nothing after the last tile.
LinesAhead PackedGemm::first_rows_of_a(const GemmCall& call, const Chunk& chunk, const TileGrid& grid,
                                       int64_t index) const {
  if (index >= chunk.batch.size * grid.tiles()) return {};
  const TileGrid::Cell cell = grid.at(index);
  return rows_of_a(call, chunk.batch.begin + cell.entry, cell.rows, chunk.depth, 0);
}

// Returns the rows of A to pack when `k` of the chunk's depth is done; nothing if the kernel does not prefetch A.
LinesAhead PackedGemm::rows_of_a(const GemmCall& call, int64_t batch, const Range& rows, const Range& depth,
                                 int64_t k) const {
  if (!kernel_.fetches_a) return {};
  return a_.ahead(call.a, batch, rows, {depth.begin + k, std::min(block_k(), depth.size - k)});
}

void PackedGemm::multiply_tile(const GemmCall& call, const Chunk& chunk, const Tile& tile) const {
  const Range& depth = chunk.depth;
  const int64_t element = kernel_.element_bytes();
  const int64_t entry_b = b_.batch_stride == 0 ? 0 : packed_bytes(chunk.columns.size, kernel_.nr, depth.size);
  const std::byte* b = call.scratch + tile.entry * entry_b +
                       packed_bytes(tile.columns.begin - chunk.columns.begin, kernel_.nr, depth.size);
  const int64_t stride_b = panel_stride(kernel_.nr, depth.size) * element;
  alignas(kAlignment) std::byte a[kPackedA];
  int64_t k = 0;
  do {
    const int64_t now = std::min(block_k(), depth.size - k);
    a_.pack(a_.at(call.a, tile.batch.begin, tile.rows.begin, depth.begin + k), a_.stride, tile.rows.size, now,
            a, panel_stride(kernel_.width_a, now));
    const bool is_last = k + now == depth.size;
    multiply_down(call, tile,
                  {a, b + kernel_.depth(k) * kernel_.nr * element, stride_b, now, depth.begin + k == 0,
                   depth.begin + k + now == problem_.k,
                   is_last ? tile.next : rows_of_a(call, tile.batch.begin, tile.rows, depth, k + now)});
    k += now;
  } while (k < depth.size);
}

// Multiplies column by column of register tiles: a panel of B stays in L1 while all of A, which is in L2, passes by.
void PackedGemm::multiply_down(const GemmCall& call, const Tile& tile, Block block) const {
  const int64_t rows = tile.rows.size, columns = tile.columns.size, stride_a = stride_of_a(block);
  const int64_t parts = ceil_div(rows, kernel_.mr) * ceil_div(columns, kernel_.nr),
                lines = ceil_div(block.next.lines(), parts);
  for (int64_t j = 0; j < columns; j += kernel_.nr, block.b += block.stride_b) {
    const std::byte* a = block.a;
    for (int64_t i = 0; i < rows; i += kernel_.mr, a += stride_a) {
      block.next.fetch(lines);
      multiply(call, tile, block, {i, j, a, block.b});
    }
  }
}

// Multiplies row by row, since A comes from the last-level cache, once. Prefetching begins late: earlier lines would be evicted.
void PackedGemm::multiply_along(const GemmCall& call, const Tile& tile, Block block) const {
  const int64_t rows = tile.rows.size, columns = tile.columns.size, stride_a = stride_of_a(block);
  const int64_t later = rows - rows / 3,
                lines = block.next.lines() / std::max<int64_t>(1, (rows - later) / kernel_.mr) + 1;
  for (int64_t i = 0; i < rows; i += kernel_.mr, block.a += stride_a) {
    const std::byte* b = block.b;
    for (int64_t j = 0; j < columns; j += kernel_.nr, b += block.stride_b)
      multiply(call, tile, block, {i, j, block.a, b});
    if (i >= later) block.next.fetch(lines);
  }
}

void PackedGemm::multiply(const GemmCall& call, const Tile& tile, const Block& block,
                          const RegisterTile& part) const {
  const auto [i, j, a, b] = part;
  const Sums to = sums_at(call, tile, i, j, !block.is_first || !block.is_last);
  prefetch_c(call, tile, i, j);
  const bool from_addend = call.addend && lies_in_c(tile, i, j);
  if (from_addend && block.is_first && call.addend != call.c) copy_addend(call, tile, i, j);
  kernel_.run(kernel_.depth(block.k), a, b, to.data, to.stride, !block.is_first || from_addend);
  if (block.is_last) finish(call, tile, i, j, to);
}

// Returns the memory of a register tile's sums. Whole register tiles are summed in C itself if its type allows it. Others use the
// tile's own buffer, each its own place in it only if sums must stay until the next block of k.
PackedGemm::Sums PackedGemm::sums_at(const GemmCall& call, const Tile& tile, int64_t i, int64_t j,
                                     bool stay) const {
  if (lies_in_c(tile, i, j)) return {c_at(call, tile, i, j), problem_.ldc};
  // Register tiles are stored one after the other: rows a power of 2 apart would fall into the same cache sets.
  const int64_t before = stay ? (i / kernel_.mr * (tile_n_ / kernel_.nr) + j / kernel_.nr) * kernel_.mr : 0;
  return {tile.sums + before * kernel_.nr * sum_bytes_, kernel_.nr};
}

void PackedGemm::copy_addend(const GemmCall& call, const Tile& tile, int64_t i, int64_t j) const {
  const auto bytes = static_cast<size_t>(kernel_.nr * c_bytes_);
  for (int64_t row = i; row < i + kernel_.mr; ++row)
    std::memcpy(c_at(call, tile, row, j), advance(call.addend, offset_in_c(tile, row, j)), bytes);
}

void PackedGemm::prefetch_c(const GemmCall& call, const Tile& tile, int64_t i, int64_t j) const {
  const int64_t bytes = std::min<int64_t>(kernel_.nr, tile.columns.size - j) * c_bytes_;
  for (int64_t r = i; r < std::min(i + kernel_.mr, tile.rows.size); ++r) {
    const std::byte* row = c_at(call, tile, r, j);
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 1);
    __builtin_prefetch(row + bytes - 1, 1);
  }
}

int64_t PackedGemm::offset_in_c(const Tile& tile, int64_t i, int64_t j) const {
  const int64_t row = tile.batch.begin * problem_.stride_c + (tile.rows.begin + i) * problem_.ldc;
  return (row + tile.columns.begin + j) * c_bytes_;
}

const std::byte* PackedGemm::bias_of(const GemmCall& call, const Range& columns, std::byte* converted) const {
  if (!problem_.has_bias) return nullptr;
  convert_bias(call.bias, problem_.bias, columns.begin, columns.size, accumulator(), converted);
  return converted;
}

// Runs the epilogue of a register tile while its sums are in L1. Sums in C already include the addend.
void PackedGemm::finish(const GemmCall& call, const Tile& tile, int64_t i, int64_t j,
                        const Sums& sums) const {
  const GemmProblem& p = problem_;
  const bool in_c = lies_in_c(tile, i, j);
  if (in_c && !p.has_bias && p.activation == Activation::kNone && p.alpha == 1) return;
  epilogue_({sums.data, tile.bias ? tile.bias + j * sum_bytes_ : nullptr, c_at(call, tile, i, j),
             std::min<int64_t>(kernel_.nr, tile.columns.size - j), p.alpha, p.activation,
             in_c ? nullptr : advance(call.addend, offset_in_c(tile, i, j)),
             std::min<int64_t>(kernel_.mr, tile.rows.size - i), sums.stride, p.ldc});
}

}  // namespace

std::shared_ptr<const Gemm> create_packed_with(const char* name, const GemmProblem& problem,
                                               const MicroKernel& kernel) {
  return std::make_shared<PackedGemm>(name, problem, kernel);
}

}  // namespace genesis::cpu
