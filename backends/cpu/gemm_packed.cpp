// The packed matrix product (after Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", 2008). For each chunk of C: pack the lines of A and B that it needs, then compute its
// tiles, both by tbb::parallel_for. Invariant: chunks, tiles and the order of sums over k follow from the
// problem alone.
#include "backends/cpu/gemm_packed.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/gemm_util.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kMaxChunkRows = 4096;       // more would only cost scratch
constexpr int64_t kScratchTarget = 24 << 20;  // packed bytes at a time, about what a last-level cache holds
constexpr int64_t kMinChunkDepth = 512;       // k of one slice, when the scratch target forces slices
constexpr int64_t kDepthInCache = 1024;  // steps of depth whose panels stay in L2 while a tile is computed
constexpr int64_t kMaxTile =
    16 * 1024;  // accumulators of one tile, on the stack of the task that computes it
constexpr int64_t kMinTileFlops = 2 << 20;  // below, tasks cost too much
constexpr int64_t kPieceBytes = 64 << 10;   // packed by one task

// One operand as the packing sees it: `lines` rows of op(A) or columns of op(B), each k long.
struct Operand {
  PackFunction pack = nullptr;
  int64_t element_bytes = 0;  // of the source
  int64_t stride = 0;         // from one line, or one p, to the next
  int64_t batch_stride = 0;
  bool k_contiguous = true;
  int width = 0;

  const std::byte* at(const void* base, int64_t batch, int64_t line, int64_t p) const {
    const int64_t offset = k_contiguous ? line * stride + p : p * stride + line;
    return static_cast<const std::byte*>(base) + (batch * batch_stride + offset) * element_bytes;
  }
};

struct Range {
  int64_t begin = 0, size = 0;
};

// What is packed and computed between two barriers.
struct Chunk {
  Range batch, rows, columns, depth;
};

// The arguments of run().
struct Call {
  const void* a;
  const void* b;
  void* c;
  const void* bias;
  std::byte* scratch;
};

class PackedGemm final : public Gemm {
 public:
  PackedGemm(const char* name, const GemmProblem& problem, const MicroKernel& kernel);

  int64_t scratch_bytes() const override { return plane_offset_ + plane_bytes_; }
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch) const override;

 private:
  // Part of C that one task computes, and the task's buffer for sums.
  struct Tile {
    int64_t batch;
    Range rows, columns;
    std::byte* sums;
  };
  struct Sums {
    std::byte* data;
    int64_t stride;
  };

  void choose_tile();
  void choose_chunk();
  Operand operand_a() const;
  Operand operand_b() const;
  int64_t panel_stride(int width, int64_t k) const;                 // packed elements
  int64_t packed_bytes(int64_t lines, int width, int64_t k) const;  // a multiple of 64

  void run_chunk(const Call& call, const Chunk& chunk, bool pack_a) const;
  void pack(const Operand& operand, const void* source, const Range& batch, const Range& lines,
            const Range& depth, std::byte* panels) const;
  void compute_tile(const Call& call, const Chunk& chunk, int64_t index) const;
  void multiply_tile(const Call& call, const Tile& tile, const std::byte* a, const std::byte* b,
                     const Range& depth) const;
  Sums sums_at(const Call& call, const Tile& tile, int64_t i, int64_t j) const;
  void prefetch_c(const Call& call, const Tile& tile, int64_t i, int64_t j) const;
  void finish_tile(const Call& call, const Tile& tile) const;

  std::byte* c_at(const Call& call, const Tile& tile, int64_t i, int64_t j) const;
  DType accumulator() const { return kernel_.packed == DType::f64 ? DType::f64 : DType::f32; }
  int64_t sum_bytes() const { return static_cast<int64_t>(size_of(accumulator())); }
  int64_t c_bytes() const { return static_cast<int64_t>(size_of(problem_.c)); }

  GemmProblem problem_;
  MicroKernel kernel_;
  Operand a_, b_;
  EpilogueFunction epilogue_ = nullptr;
  bool in_place_ = false;  // C serves as its own accumulators
  int64_t tile_m_ = 0, tile_n_ = 0;
  int64_t chunk_batch_ = 1, chunk_m_ = 0, chunk_n_ = 0, chunk_k_ = 0;
  int64_t b_offset_ = 0, plane_offset_ = 0, plane_bytes_ = 0;  // in scratch; A's panels come first
};

PackedGemm::PackedGemm(const char* name, const GemmProblem& problem, const MicroKernel& kernel)
    : Gemm(name), problem_(problem), kernel_(kernel), a_(operand_a()), b_(operand_b()) {
  epilogue_ = epilogue_function(accumulator(), problem.c);
  choose_tile();
  choose_chunk();
}

Operand PackedGemm::operand_a() const {
  const GemmProblem& p = problem_;
  const bool along = !p.transpose_a;
  return {pack_function(p.a, kernel_.packed, along),
          static_cast<int64_t>(size_of(p.a)),
          p.lda,
          p.stride_a,
          along,
          kernel_.mr};
}

Operand PackedGemm::operand_b() const {
  const GemmProblem& p = problem_;
  const bool along = p.transpose_b;
  return {pack_function(p.b, kernel_.packed, along),
          static_cast<int64_t>(size_of(p.b)),
          p.ldb,
          p.stride_b,
          along,
          kernel_.nr};
}

// Large tiles reuse the cache, small ones share the work evenly: aim at 256 tiles.
void PackedGemm::choose_tile() {
  const GemmProblem& p = problem_;
  tile_m_ = std::min<int64_t>(8, ceil_div(p.m, kernel_.mr)) * kernel_.mr;
  tile_n_ = std::min<int64_t>(4, ceil_div(p.n, kernel_.nr)) * kernel_.nr;
  const double flops = 2.0 * p.batch * p.m * p.n * p.k;
  const double target = std::max<double>(kMinTileFlops, flops / 256);
  while (2.0 * tile_m_ * tile_n_ * p.k > target && (tile_m_ > 2 * kernel_.mr || tile_n_ > kernel_.nr)) {
    if (tile_m_ > tile_n_ || tile_n_ == kernel_.nr)
      tile_m_ = round_up(tile_m_ / 2, kernel_.mr);
    else
      tile_n_ = round_up(tile_n_ / 2, kernel_.nr);
  }
}

// The padding keeps panels of 2^n steps from falling into the same cache sets.
int64_t PackedGemm::panel_stride(int width, int64_t k) const {
  return round_up(kernel_.depth(k) * width, 16) + 16;
}

int64_t PackedGemm::packed_bytes(int64_t lines, int width, int64_t k) const {
  return ceil_div(lines, width) * panel_stride(width, k) * kernel_.element_bytes();
}

void PackedGemm::choose_chunk() {
  const GemmProblem& p = problem_;
  chunk_m_ = std::min(round_up(p.m, tile_m_), round_up(kMaxChunkRows, tile_m_));
  chunk_n_ = std::min(round_up(p.n, tile_n_), round_up(kMaxChunkRows, tile_n_));
  const int64_t per_k = (chunk_m_ + chunk_n_) * kernel_.element_bytes() * kernel_.depth(1024) / 1024;
  const int64_t slices =
      ceil_div(std::max<int64_t>(p.k, 1), std::max(kMinChunkDepth, kScratchTarget / per_k));
  chunk_k_ = round_up(ceil_div(p.k, slices), 2);
  const int64_t bytes_a = packed_bytes(chunk_m_, kernel_.mr, chunk_k_);
  const int64_t bytes_b = packed_bytes(chunk_n_, kernel_.nr, chunk_k_);
  chunk_batch_ = std::clamp<int64_t>(kScratchTarget / std::max<int64_t>(1, bytes_a + bytes_b), 1, p.batch);
  b_offset_ = (p.stride_a == 0 ? 1 : chunk_batch_) * bytes_a;
  plane_offset_ = b_offset_ + (p.stride_b == 0 ? 1 : chunk_batch_) * bytes_b;
  plane_bytes_ = slices > 1 ? chunk_batch_ * chunk_m_ * chunk_n_ * sum_bytes() : 0;
  in_place_ = problem_.c == accumulator() && !problem_.accumulate && slices == 1;
}

void PackedGemm::run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch) const {
  const GemmProblem& p = problem_;
  const Call call{a, b, c, bias, scratch};
  const auto range = [](int64_t begin, int64_t chunk, int64_t all) {
    return Range{begin, std::min(chunk, all - begin)};
  };
  for (int64_t batch = 0; batch < p.batch; batch += chunk_batch_) {
    for (int64_t i = 0; i < p.m; i += chunk_m_) {
      for (int64_t j = 0; j < p.n; j += chunk_n_) {
        int64_t k = 0;
        do {
          const Chunk chunk{range(batch, chunk_batch_, p.batch), range(i, chunk_m_, p.m),
                            range(j, chunk_n_, p.n), range(k, chunk_k_, p.k)};
          run_chunk(call, chunk, j == 0 || chunk_k_ < p.k);
          k += chunk_k_;
        } while (k < p.k);
      }
    }
  }
}

void PackedGemm::run_chunk(const Call& call, const Chunk& chunk, bool pack_a) const {
  const auto packed_batch = [&](const Operand& o) { return o.batch_stride == 0 ? Range{0, 1} : chunk.batch; };
  if (pack_a) pack(a_, call.a, packed_batch(a_), chunk.rows, chunk.depth, call.scratch);
  pack(b_, call.b, packed_batch(b_), chunk.columns, chunk.depth, call.scratch + b_offset_);
  const int64_t tiles = ceil_div(chunk.rows.size, tile_m_) * ceil_div(chunk.columns.size, tile_n_);
  parallel_for_each_index(chunk.batch.size * tiles, [&](int64_t index) { compute_tile(call, chunk, index); });
}

void PackedGemm::pack(const Operand& operand, const void* source, const Range& batch, const Range& lines,
                      const Range& depth, std::byte* panels) const {
  const int64_t element = kernel_.element_bytes(), stride = panel_stride(operand.width, depth.size);
  const int64_t per_batch = packed_bytes(lines.size, operand.width, depth.size);
  // Long runs of the source per task: along k if k is contiguous, else across many lines.
  const int64_t piece_lines = (operand.k_contiguous ? 2 : std::max(1, 512 / operand.width)) * operand.width;
  const int64_t piece_k = std::max<int64_t>(32, round_up(kPieceBytes / (piece_lines * element), 2));
  const int64_t line_pieces = ceil_div(lines.size, piece_lines), k_pieces = ceil_div(depth.size, piece_k);
  parallel_for_each_index(batch.size * line_pieces * k_pieces, [&](int64_t index) {
    const int64_t line = index / k_pieces % line_pieces * piece_lines, k = index % k_pieces * piece_k;
    const int64_t entry = index / k_pieces / line_pieces;
    const int64_t offset = line / operand.width * stride + kernel_.depth(k) * operand.width;
    operand.pack(operand.at(source, batch.begin + entry, lines.begin + line, depth.begin + k), operand.stride,
                 std::min(piece_lines, lines.size - line), std::min(piece_k, depth.size - k), operand.width,
                 panels + entry * per_batch + offset * element, stride);
  });
}

void PackedGemm::compute_tile(const Call& call, const Chunk& chunk, int64_t index) const {
  const int64_t tiles_m = ceil_div(chunk.rows.size, tile_m_), tiles_n = ceil_div(chunk.columns.size, tile_n_);
  const int64_t i = index % tiles_m * tile_m_, j = index / tiles_m % tiles_n * tile_n_;
  const int64_t entry = index / tiles_m / tiles_n;
  const Range rows{i, std::min(tile_m_, chunk.rows.size - i)};
  const Range columns{j, std::min(tile_n_, chunk.columns.size - j)};

  const int64_t k = chunk.depth.size;
  const int64_t entry_a = a_.batch_stride == 0 ? 0 : packed_bytes(chunk.rows.size, kernel_.mr, k);
  const int64_t entry_b = b_.batch_stride == 0 ? 0 : packed_bytes(chunk.columns.size, kernel_.nr, k);
  const std::byte* a = call.scratch + entry * entry_a + packed_bytes(i, kernel_.mr, k);
  const std::byte* b = call.scratch + b_offset_ + entry * entry_b + packed_bytes(j, kernel_.nr, k);

  alignas(kAlignment)
      std::byte on_stack[kMaxTile * 4];  // this task waits for no other, so nothing can nest here
  const int64_t tile_bytes = tile_m_ * tile_n_ * sum_bytes();
  const Tile tile{chunk.batch.begin + entry,
                  {chunk.rows.begin + i, rows.size},
                  {chunk.columns.begin + j, columns.size},
                  plane_bytes_ ? call.scratch + plane_offset_ + index * tile_bytes : on_stack};
  multiply_tile(call, tile, a, b, chunk.depth);
  if (chunk.depth.begin + k == problem_.k) finish_tile(call, tile);
}

void PackedGemm::multiply_tile(const Call& call, const Tile& tile, const std::byte* a, const std::byte* b,
                               const Range& depth) const {
  const int64_t steps = kernel_.depth(depth.size), element = kernel_.element_bytes();
  const int64_t stride_a = panel_stride(kernel_.mr, depth.size) * element;
  const int64_t stride_b = panel_stride(kernel_.nr, depth.size) * element;
  int64_t p = 0;
  do {
    const std::byte *a_at = a + p * kernel_.mr * element, *b_at = b + p * kernel_.nr * element;
    const int64_t now = std::min(kDepthInCache, steps - p);
    const bool add = p > 0 || depth.begin > 0, last = p + now == steps;
    for (int64_t j = 0; j < tile.columns.size; j += kernel_.nr) {
      for (int64_t i = 0; i < tile.rows.size; i += kernel_.mr) {
        const Sums to = sums_at(call, tile, i, j);
        if (last) prefetch_c(call, tile, i, j);
        kernel_.run(now, a_at + i / kernel_.mr * stride_a, b_at + j / kernel_.nr * stride_b, to.data,
                    to.stride, add);
      }
    }
    p += now;
  } while (p < steps);
}

// Whole register tiles are summed in C itself where its type allows; what sticks out goes to the tile's own
// buffer.
PackedGemm::Sums PackedGemm::sums_at(const Call& call, const Tile& tile, int64_t i, int64_t j) const {
  const bool whole = i + kernel_.mr <= tile.rows.size && j + kernel_.nr <= tile.columns.size;
  if (in_place_ && whole) return {c_at(call, tile, i, j), problem_.ldc};
  return {tile.sums + (i * tile_n_ + j) * sum_bytes(), tile_n_};
}

void PackedGemm::prefetch_c(const Call& call, const Tile& tile, int64_t i, int64_t j) const {
  const int64_t bytes = std::min<int64_t>(kernel_.nr, tile.columns.size - j) * c_bytes();
  for (int64_t r = i; r < std::min(i + kernel_.mr, tile.rows.size); ++r) {
    const std::byte* row = c_at(call, tile, r, j);
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 1);
    __builtin_prefetch(row + bytes - 1, 1);
  }
}

std::byte* PackedGemm::c_at(const Call& call, const Tile& tile, int64_t i, int64_t j) const {
  const int64_t row = tile.batch * problem_.stride_c + (tile.rows.begin + i) * problem_.ldc;
  return static_cast<std::byte*>(call.c) + (row + tile.columns.begin + j) * c_bytes();
}

void PackedGemm::finish_tile(const Call& call, const Tile& tile) const {
  const GemmProblem& p = problem_;
  const bool untouched = !p.has_bias && p.activation == Activation::kNone && p.alpha == 1;
  alignas(kAlignment) std::byte bias[kMaxBias * 8];
  if (p.has_bias) convert_bias(call.bias, p.bias, tile.columns.begin, tile.columns.size, accumulator(), bias);
  const int64_t whole_rows = in_place_ ? tile.rows.size / kernel_.mr * kernel_.mr : 0;
  const int64_t whole_columns = in_place_ ? tile.columns.size / kernel_.nr * kernel_.nr : 0;
  for (int64_t i = 0; i < tile.rows.size; ++i) {
    const int64_t in_c = i < whole_rows ? whole_columns : 0;  // columns whose sums lie in C
    const auto finish = [&](const std::byte* sums, int64_t j, int64_t n) {
      if (n > 0)
        epilogue_({sums, p.has_bias ? bias + j * sum_bytes() : nullptr, c_at(call, tile, i, j), n, p.alpha,
                   p.activation, p.accumulate});
    };
    if (!untouched) finish(c_at(call, tile, i, 0), 0, in_c);
    finish(tile.sums + (i * tile_n_ + in_c) * sum_bytes(), in_c, tile.columns.size - in_c);
  }
}

std::string decline_kernel(const GemmProblem& p, const MicroKernel& kernel) {
  if (p.batch * p.m * p.n == 0) return "the result is empty";
  if (!pack_function(p.a, kernel.packed, true)) return "A is " + std::string(name_of(p.a));
  if (!pack_function(p.b, kernel.packed, true)) return "B is " + std::string(name_of(p.b));
  const DType accumulator = kernel.packed == DType::f64 ? DType::f64 : DType::f32;
  if (!epilogue_function(accumulator, p.c)) return "C is " + std::string(name_of(p.c));
  return {};
}

MicroKernel kernel_for(const GemmProblem& p) {
  return p.a == DType::f64 ? micro_kernel_f64() : micro_kernel_f32();
}

}  // namespace

std::string decline_packed(const GemmProblem& problem) {
  return decline_kernel(problem, kernel_for(problem));
}

std::shared_ptr<const Gemm> create_packed(const GemmProblem& problem) {
  return std::make_shared<PackedGemm>("packed", problem, kernel_for(problem));
}

std::string decline_packed_bf16(const GemmProblem& problem) {
  const MicroKernel kernel = micro_kernel_bf16();
  return kernel.mr == 0 ? "this CPU has no AVX512_BF16" : decline_kernel(problem, kernel);
}

std::shared_ptr<const Gemm> create_packed_bf16(const GemmProblem& problem) {
  return std::make_shared<PackedGemm>("packed bf16", problem, micro_kernel_bf16());
}

}  // namespace genesis::cpu
