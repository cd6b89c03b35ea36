// bf16 products by oneDNN: the columns of B are packed once into oneDNN's layout, one tile of columns per
// task, then each tile of C is one task. Tiles follow from the problem alone; every primitive sums over the
// whole of k.
#include "backends/cpu/gemm/gemm_ways.h"

#include <algorithm>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/onednn/onednn.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

using onednn::TileProduct;
using onednn::TileShape;

constexpr int64_t kTileRows = 128, kTileColumns = 256;
constexpr int64_t kMaxWorkspace = 256 << 10;  // on the stack of a task
constexpr int64_t kScratchTarget = 64 << 20;  // of packed B, for the batch entries that are computed together
constexpr int64_t kMinRows = 16;

// Up to four primitives: whole tiles, and what is left at the last row and the last column of tiles.
struct Products {
  std::unique_ptr<const TileProduct> of[2][2];  // [last rows][last columns]
};

Products make_products(const GemmProblem& p) {
  Products products;
  const int64_t rows[2] = {std::min(kTileRows, p.m), p.m % kTileRows},
                columns[2] = {std::min(kTileColumns, p.n), p.n % kTileColumns};
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < 2; ++i) {
      if (rows[i] == 0 || columns[j] == 0) continue;
      const TileShape shape{rows[i],       columns[j], p.k,           p.lda,
                            p.transpose_a, p.ldb,      p.transpose_b, kTileColumns};
      products.of[i][j] = TileProduct::create(shape, p.a, i == 0 ? nullptr : products.of[0][j].get());
      if (!products.of[i][j] || products.of[i][j]->workspace_bytes() > kMaxWorkspace) return {};
    }
  }
  return products;
}

class OneDnnGemm final : public Gemm {
 public:
  explicit OneDnnGemm(const GemmProblem& p)
      : Gemm("onednn"),
        problem_(p),
        products_(make_products(p)),
        epilogue_(epilogue_function(DType::f32, p.c)) {
    tiles_m_ = ceil_div(p.m, kTileRows);
    tiles_n_ = ceil_div(p.n, kTileColumns);
    packed_tile_ = round_up(product(0, 0).packed_b_bytes(), kAlignment);
    if (tiles_n_ > 1)
      packed_tile_ = std::max(packed_tile_, round_up(product(0, tiles_n_ - 1).packed_b_bytes(), kAlignment));
    const int64_t per_entry = (CheckedSize(packed_tile_) * tiles_n_).value();
    together_ = p.stride_b == 0 ? p.batch : std::clamp<int64_t>(kScratchTarget / per_entry, 1, p.batch);
  }

  int64_t scratch_bytes() const override {
    return (CheckedSize(problem_.stride_b == 0 ? 1 : together_) * tiles_n_ * packed_tile_).value();
  }

  void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
           const void* given) const override {
    const GemmProblem& p = problem_;
    const void* addend = addend_of(p, c, given);
    for (int64_t batch = 0; batch < p.batch; batch += together_) {
      const int64_t entries = std::min(together_, p.batch - batch);
      parallel_pieces((p.stride_b == 0 ? 1 : entries) * tiles_n_,
                      [&](int64_t index) { pack(b, batch, index, scratch); });
      parallel_pieces(entries * tiles_m_ * tiles_n_, [&](int64_t index) {
        compute_tile(a, {c, bias, addend}, batch, index, scratch);
      });
    }
  }

 private:
  const TileProduct& product(int64_t i, int64_t j) const {
    const bool last_rows = i > 0 && (i + 1) * kTileRows > problem_.m;
    const bool last_columns = j > 0 && (j + 1) * kTileColumns > problem_.n;
    return *products_.of[last_rows][last_columns];
  }

  void pack(const void* b, int64_t batch, int64_t index, std::byte* scratch) const {
    const GemmProblem& p = problem_;
    alignas(kAlignment) std::byte workspace[kMaxWorkspace];
    const int64_t j = index % tiles_n_, entry = batch + index / tiles_n_;
    const int64_t offset = entry * p.stride_b + j * kTileColumns * (p.transpose_b ? p.ldb : 1);
    product(0, j).pack_b(static_cast<const std::byte*>(b) + offset * 2, scratch + index * packed_tile_,
                         workspace);
  }

  struct Result {
    void* c;
    const void *bias, *addend;
  };

  void compute_tile(const void* a, const Result& to, int64_t batch, int64_t index, std::byte* scratch) const {
    const GemmProblem& p = problem_;
    alignas(kAlignment) std::byte workspace[kMaxWorkspace];
    alignas(kAlignment) float sums[kTileRows * kTileColumns];
    const int64_t i = index % tiles_m_, j = index / tiles_m_ % tiles_n_, entry = index / tiles_m_ / tiles_n_;
    const int64_t offset = (batch + entry) * p.stride_a + i * kTileRows * (p.transpose_a ? 1 : p.lda);
    const std::byte* packed = scratch + ((p.stride_b == 0 ? 0 : entry) * tiles_n_ + j) * packed_tile_;
    product(i, j).multiply(static_cast<const std::byte*>(a) + offset * 2, packed, sums, workspace);
    finish(to, batch + entry, i * kTileRows, j * kTileColumns, sums);
  }

  void finish(const Result& to, int64_t entry, int64_t row, int64_t column, const float* sums) const {
    const GemmProblem& p = problem_;
    const int64_t n = std::min(kTileColumns, p.n - column), element = static_cast<int64_t>(size_of(p.c));
    alignas(kAlignment) float converted[kTileColumns];
    if (p.has_bias) convert_bias(to.bias, p.bias, column, n, DType::f32, converted);
    for (int64_t i = 0; i < std::min(kTileRows, p.m - row); ++i) {
      const int64_t at = (entry * p.stride_c + (row + i) * p.ldc + column) * element;
      epilogue_({sums + i * kTileColumns, p.has_bias ? converted : nullptr,
                 static_cast<std::byte*>(to.c) + at, n, p.alpha, p.activation, advance(to.addend, at)});
    }
  }

  GemmProblem problem_;
  Products products_;
  EpilogueFunction epilogue_;
  int64_t tiles_m_ = 0, tiles_n_ = 0, packed_tile_ = 0, together_ = 1;
};

}  // namespace

std::string decline_onednn_anywhere(const GemmProblem& p) {
  if (std::string why = onednn::why_missing(); !why.empty()) return why;
  if (p.batch * p.m * p.n == 0 || p.k == 0) return "nothing to sum";
  if (p.m < kMinRows) return "fewer than " + std::to_string(kMinRows) + " rows";
  if (p.a != DType::bf16 || p.b != DType::bf16) return "an operand is not bf16";
  if (!epilogue_function(DType::f32, p.c)) return "C is " + std::string(name_of(p.c));
  return make_products(p).of[0][0] ? "" : "oneDNN has no such primitive";
}

std::string decline_onednn(const GemmProblem& p) {
  std::string why = onednn::why_no_amx_bf16();
  return why.empty() ? decline_onednn_anywhere(p) : why;
}

std::shared_ptr<const Gemm> create_onednn(const GemmProblem& problem) {
  return std::make_shared<OneDnnGemm>(problem);
}

}  // namespace genesis::cpu
