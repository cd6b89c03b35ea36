// bf16 products on AMX. A core multiplies tiles many times faster than it fetches them, so everything here is about where
// operands lie. All threads pack both operands into panels (gemm_amx.h), each element once. Then each thread gets a few large
// tiles of C, whose sums stay in its L2 cache while panels pass by, one block of k at a time. A panel of B stays in L1 while it
// meets the tile's panels of A, and the next panels are prefetched meanwhile. Invariant: an element is one sum in the order of k,
// however C is cut.
#include "backends/cpu/gemm/amx/gemm_amx.h"

#include <tbb/task_arena.h>

#include <algorithm>

#include "backends/cpu/gemm/gemm_implementations.h"
#include "backends/cpu/gemm/gemm_task_grid.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kDepth = 256;         // steps of k at a time: a panel of A and one of B fit L1
constexpr int64_t kMaxTileLines = 512;  // most lines of A, and of B, in a tile of C
constexpr int64_t kMaxSums =
    128 << 10;  // elements of a tile of C: 512 KB, which fit L2 together with the panels of a block of k
constexpr int64_t kMinChunkLines = 512;       // even if k is very long
constexpr int64_t kPieceElements = 64 << 10;  // elements that one task packs
constexpr int64_t kPieceLines = 256;          // for operands whose lines lie side by side: runs of 512 bytes
constexpr double kAloneFlops = 4e6;           // computed before other threads are awake

// The range of the product that is computed between two barriers.
struct Chunk {
  Range batch, rows, columns;
  bool packs_a = true, packs_b = true;
};

// A or B packed in scratch memory, entry by entry of the batch. All panels of one block of kDepth steps come before those of the
// next block, so a task reads one contiguous run at a time, which is spread over all sets of the cache.
struct Packed {
  Operand source;
  int64_t k = 0, chunk_lines = 0;
  int64_t entry_bytes = 0;

  bool is_shared() const { return source.batch_stride == 0; }  // by all entries of the batch
  int64_t panel_bytes(int64_t at_k) const { return amx_panel_bytes(std::min(kDepth, k - at_k)); }
  int64_t at(int64_t line, int64_t at_k) const {  // at_k is a multiple of kDepth
    return at_k * chunk_lines * 2 + line / kAmxLines * panel_bytes(at_k);
  }
};

class AmxGemm final : public Gemm {
 public:
  AmxGemm(const GemmProblem& problem, const AmxKernel& kernel, const AmxLimits& limits);

  int64_t scratch_bytes() const override { return (CheckedSize(offset_b_) + bytes_b_).value(); }
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
           const void* addend) const override;

 private:
  // The rectangle of C that one task computes.
  struct Tile {
    int64_t entry;  // index in the batch
    Range rows, columns;
    const std::byte *a, *b;    // packed operands of the entry
    int64_t first_a, first_b;  // first lines in them
    const std::byte* bias;     // bias of its columns, in f32
    float* sums;
  };

  void choose_chunk(int64_t chunk_bytes);
  void choose_tile(int threads);

  void run_chunk(const GemmCall& call, const Chunk& chunk) const;
  void compute_tile(const GemmCall& call, const Chunk& chunk, const TileGrid::Cell& cell) const;
  void multiply_some_of_k(const GemmCall& call, const Tile& tile, int64_t k) const;
  void finish(const GemmCall& call, const Tile& tile, int64_t i, int64_t j, const float* sums) const;
  bool rounds_alone() const {
    const GemmProblem& p = problem_;
    return kernel_.write_bf16 && p.c == DType::bf16 && !p.has_bias && !p.accumulate && p.alpha == 1 &&
           p.activation == Activation::kNone;
  }

  GemmProblem problem_;
  AmxKernel kernel_;
  Packed a_, b_;
  EpilogueFunction epilogue_;
  bool alone_;
  int64_t chunk_batch_ = 1, tile_m_ = 0, tile_n_ = 0;
  int64_t offset_b_ = 0, bytes_b_ = 0;  // in scratch, behind A
};

Packed packed_operand(PackFunction pack, int64_t ld, int64_t batch_stride, bool k_contiguous, int64_t lines,
                      int64_t k, int64_t chunk_bytes) {
  Packed made;
  made.source = {pack, 2, ld, batch_stride, k_contiguous};
  made.k = k;
  const int64_t fit = std::max(kMinChunkLines, chunk_bytes / amx_panel_bytes(k) * kAmxLines);
  made.chunk_lines = round_up(ceil_div(lines, ceil_div(lines, fit)), kAmxLines);
  made.entry_bytes = (CheckedSize(made.chunk_lines / kAmxLines) * amx_panel_bytes(k)).value();
  return made;
}

AmxGemm::AmxGemm(const GemmProblem& p, const AmxKernel& kernel, const AmxLimits& limits)
    : Gemm("amx"),
      problem_(p),
      kernel_(kernel),
      a_(packed_operand(amx_pack_a(!p.transpose_a), p.lda, p.stride_a, !p.transpose_a, p.m, p.k,
                        limits.chunk_bytes)),
      b_(packed_operand(amx_pack_b(p.transpose_b), p.ldb, p.stride_b, p.transpose_b, p.n, p.k,
                        limits.chunk_bytes)),
      epilogue_(epilogue_function(DType::f32, p.c)),
      alone_(flops_of(p) < kAloneFlops) {
  choose_chunk(limits.chunk_bytes);
  choose_tile(limits.threads);
}

void AmxGemm::choose_chunk(int64_t chunk_bytes) {
  chunk_batch_ =
      std::clamp<int64_t>(chunk_bytes / std::max(a_.entry_bytes, b_.entry_bytes), 1, problem_.batch);
  offset_b_ = (CheckedSize(a_.is_shared() ? 1 : chunk_batch_) * a_.entry_bytes).value();
  bytes_b_ = (CheckedSize(b_.is_shared() ? 1 : chunk_batch_) * b_.entry_bytes).value();
}

// Chooses the tile with the least relative time of the thread that has the most work: multiplying, fetching, and the overhead of
// each tile.
void AmxGemm::choose_tile(int threads) {
  // The cost of fetching a line of A or B, and of a tile, in units of multiplying one row by one column.
  constexpr double kFetch = 128, kTile = 8192;
  const int64_t rows = std::min(problem_.m, a_.chunk_lines), columns = std::min(problem_.n, b_.chunk_lines);
  double best = 0;
  for (int64_t m = kAmxLines; m <= kMaxTileLines; m += kAmxLines) {
    for (int64_t n = kAmxLines; n <= kMaxTileLines && m * n <= kMaxSums; n += kAmxLines) {
      const int64_t tiles = chunk_batch_ * ceil_div(rows, m) * ceil_div(columns, n);
      const double cost = static_cast<double>(ceil_div(tiles, threads)) *
                          (static_cast<double>(m * n) + kFetch * static_cast<double>(m + n) + kTile);
      if (best != 0 && cost >= best) continue;
      best = cost;
      tile_m_ = m;
      tile_n_ = n;
    }
  }
}

void AmxGemm::run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
                  const void* addend) const {
  const GemmProblem& p = problem_;
  const GemmCall call{a, b, c, bias, scratch, addend_of(p, c, addend)};
  for (int64_t batch = 0; batch < p.batch; batch += chunk_batch_) {
    for (int64_t j = 0; j < p.n; j += b_.chunk_lines) {
      for (int64_t i = 0; i < p.m; i += a_.chunk_lines)
        run_chunk(call, {range_at(batch, chunk_batch_, p.batch), range_at(i, a_.chunk_lines, p.m),
                         range_at(j, b_.chunk_lines, p.n), j == 0 || a_.chunk_lines < p.m, i == 0});
    }
  }
}

// Splits the packing of an operand into tasks by lines and by k, so that a task reads long runs and all threads have work.
class Packing {
 public:
  Packing(const Packed& to, const Range& batch, const Range& lines, int64_t k)
      : to_(to), lines_(lines), k_(k), first_entry_(to.is_shared() ? 0 : batch.begin) {
    const int64_t longest =
        to.source.k_contiguous ? kPieceElements / kAmxLines : kPieceElements / kPieceLines;
    piece_k_ = std::min(round_up(k, kDepth), longest);
    piece_lines_ = kPieceElements / piece_k_ / kAmxLines * kAmxLines;
    k_pieces_ = ceil_div(k, piece_k_);
    line_pieces_ = ceil_div(lines.size, piece_lines_);
    pieces_ = (to.is_shared() ? 1 : batch.size) * line_pieces_ * k_pieces_;
  }

  int64_t pieces() const { return pieces_; }

  void run(const void* from, std::byte* packed, int64_t index) const {
    const int64_t k = index % k_pieces_ * piece_k_, line = index / k_pieces_ % line_pieces_ * piece_lines_;
    const int64_t entry = index / k_pieces_ / line_pieces_;
    for (int64_t at = k; at < std::min(k + piece_k_, k_); at += kDepth)
      to_.source.pack(to_.source.at(from, first_entry_ + entry, lines_.begin + line, at), to_.source.stride,
                      std::min(piece_lines_, lines_.size - line), std::min(kDepth, k_ - at),
                      packed + entry * to_.entry_bytes + to_.at(line, at), to_.panel_bytes(at) / 4);
  }

 private:
  const Packed& to_;
  Range lines_;
  int64_t k_, first_entry_;
  int64_t piece_k_, piece_lines_, k_pieces_, line_pieces_, pieces_;
};

void AmxGemm::run_chunk(const GemmCall& call, const Chunk& chunk) const {
  const Packing a(a_, chunk.batch, chunk.rows, problem_.k), b(b_, chunk.batch, chunk.columns, problem_.k);
  const int64_t pieces_a = chunk.packs_a ? a.pieces() : 0, pieces_b = chunk.packs_b ? b.pieces() : 0;
  for_each_task(alone_, pieces_a + pieces_b, [&](int64_t index) {
    if (index < pieces_a) return a.run(call.a, call.scratch, index);
    b.run(call.b, call.scratch + offset_b_, index - pieces_a);
  });
  const TileGrid grid{chunk.rows, chunk.columns, tile_m_, tile_n_};
  for_each_task(alone_, chunk.batch.size * grid.tiles(),
                [&](int64_t index) { compute_tile(call, chunk, grid.at(index)); });
}

void AmxGemm::compute_tile(const GemmCall& call, const Chunk& chunk, const TileGrid::Cell& cell) const {
  // This task waits for no other, so TBB cannot start another one on top of this stack frame.
  alignas(kAlignment) float sums[kMaxSums];
  alignas(kAlignment) std::byte bias[kMaxTileLines * 4];
  const Tile tile{chunk.batch.begin + cell.entry,
                  cell.rows,
                  cell.columns,
                  call.scratch + (a_.is_shared() ? 0 : cell.entry) * a_.entry_bytes,
                  call.scratch + offset_b_ + (b_.is_shared() ? 0 : cell.entry) * b_.entry_bytes,
                  cell.rows.begin - chunk.rows.begin,
                  cell.columns.begin - chunk.columns.begin,
                  problem_.has_bias ? bias : nullptr,
                  sums};
  if (problem_.has_bias)
    convert_bias(call.bias, problem_.bias, tile.columns.begin, tile.columns.size, DType::f32, bias);
  if (kernel_.begin) kernel_.begin();
  for (int64_t k = 0; k < problem_.k; k += kDepth) multiply_some_of_k(call, tile, k);
  if (kernel_.end) kernel_.end();
}

void AmxGemm::multiply_some_of_k(const GemmCall& call, const Tile& tile, int64_t k) const {
  const int64_t next = k + kDepth, panel = a_.panel_bytes(k), blocks = panel / amx_panel_bytes(kAmxK);
  const bool is_last = next >= problem_.k, is_only = is_last && k == 0;
  const int64_t panels_a = ceil_div(tile.rows.size, kAmxLines),
                panels_b = ceil_div(tile.columns.size, kAmxLines);
  const std::byte *a = tile.a + a_.at(tile.first_a, k), *b = tile.b + b_.at(tile.first_b, k);
  AmxAhead ahead;
  if (!is_last)
    ahead.a = LinesAhead(tile.a + a_.at(tile.first_a, next), 1, panels_a * a_.panel_bytes(next), 0);
  ahead.lines_a = ceil_div(ahead.a.lines(), panels_a * panels_b * blocks);
  for (int64_t j = 0; j < panels_b; ++j, b += panel) {
    if (j + 1 < panels_b)
      ahead.b = LinesAhead(b + panel, 1, panel, 0);
    else if (!is_last)
      ahead.b = LinesAhead(tile.b + b_.at(tile.first_b, next), 1, b_.panel_bytes(next), 0);
    ahead.lines_b = ceil_div(ahead.b.lines(), panels_a * blocks);
    for (int64_t i = 0; i < panels_a; ++i) {
      float* sums = tile.sums + (is_only ? 0 : (j * panels_a + i) * kAmxLines * kAmxLines);
      kernel_.multiply(blocks, a + i * panel, b, sums, k > 0, ahead);
      if (is_last) finish(call, tile, i * kAmxLines, j * kAmxLines, sums);
    }
  }
}

void AmxGemm::finish(const GemmCall& call, const Tile& tile, int64_t i, int64_t j, const float* sums) const {
  const GemmProblem& p = problem_;
  const auto element = static_cast<int64_t>(size_of(p.c));
  const int64_t rows = std::min(kAmxLines, tile.rows.size - i),
                columns = std::min(kAmxLines, tile.columns.size - j);
  const int64_t at =
      (tile.entry * p.stride_c + (tile.rows.begin + i) * p.ldc + tile.columns.begin + j) * element;
  void* c = static_cast<std::byte*>(call.c) + at;
  if (rounds_alone()) return kernel_.write_bf16(sums, c, p.ldc, rows, columns);
  epilogue_({sums, cpu::advance(tile.bias, j * 4), c, columns, p.alpha, p.activation,
             cpu::advance(call.addend, at), rows, kAmxLines, p.ldc});
}

}  // namespace

std::string decline_amx(const GemmProblem& p) {
  if (!amx_kernel().multiply) return "this CPU has no AMX for bf16, or Linux does not give it";
  if (p.batch * p.m * p.n == 0) return "the result is empty";
  if (p.a != DType::bf16) return "A is " + std::string(name_of(p.a));
  if (p.b != DType::bf16) return "B is " + std::string(name_of(p.b));
  if (!epilogue_function(DType::f32, p.c)) return "C is " + std::string(name_of(p.c));
  constexpr int64_t kMinRows = 16, kMinDepth = 16;  // with fewer, at least half of each tile would be empty
  if (p.m < kMinRows || p.n < kMinRows || p.k < kMinDepth) return "the tiles would be mostly empty";
  return amx_pack_a(true) ? "" : "this CPU has no AVX-512";
}

std::shared_ptr<const Gemm> create_amx_with(const GemmProblem& problem, const AmxKernel& kernel,
                                            const AmxLimits& limits) {
  return std::make_shared<AmxGemm>(problem, kernel, limits);
}

std::shared_ptr<const Gemm> create_amx(const GemmProblem& problem) {
  return create_amx_with(problem, amx_kernel(), {.threads = tbb::this_task_arena::max_concurrency()});
}

}  // namespace genesis::cpu
