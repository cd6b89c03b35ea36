// linear_cross_entropy without a pass over the logits, in bf16 on Hopper chips. The product that computes the logits
// writes e = exp(logit - reference) instead (logit_epilogue.h). A small kernel after it computes each row's sum Z of
// all e, and the loss. softmax is e / Z. The factor scale / Z is applied to the results of the products with e and to
// the x that is multiplied with e, because these are much smaller than e. The contribution of the target's logit to
// the gradients, a row of the weight and a row of x, is added in f32, and e is 0 at the target.
//
// Any reference gives the same gradients, up to rounding, as long as e neither overflows nor vanishes. The reference
// is the target's logit, a dot product per row. If another logit is so far above it that f32 overflows, the loss is
// 60 or more, which is rare in any training. The kernels that find such a row request its block of rows again, with
// the largest logits as references: they are launched twice, and the second time do nothing unless requested.
//
// Rows that count come first (logit_order.h), in a copy of x. A captured graph skips the blocks and half blocks after
// them; a run that is not captured multiplies all rows.
#include "backends/cuda/device/packs.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/logits/logit_epilogue.h"
#include "backends/cuda/hopper/logits/logit_order.h"
#include "backends/cuda/hopper/logits/logit_targets.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/rows/logit_blocks.h"
#include "backends/cuda/runtime/graph_choice.h"

namespace genesis::cuda {
namespace {

using hopper::ExponentialEpilogue;
using hopper::LogitRow;
using hopper::LogitSum;
using Bf16 = ExponentialEpilogue::Bf16;

constexpr int64_t kAligned = 256;
int64_t aligned(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

// The layout of a call's scratch memory.
struct ScratchParts {
  LogitRow* rows;        // [rows], in the order of logit_order.h, as all arrays below
  int* order;            // [rows]: row of x and of dx
  int* counted;          // [1]: number of rows that count
  Words* x;              // [rows, hidden] in bf16
  Words* scaled_x;       // [each, hidden]: x times its rows' factors
  int* again;            // [blocks]: nonzero if a reference was bad
  float* target_logits;  // [each]
  float* factors;        // [each]
  float* slopes;         // [each]: factor of the target's rows in the gradients
  LogitSum* sums;        // [column tiles, each], until the factors are computed
  Words* raw_dx;         // [each, hidden] in bf16, after that
  int64_t bytes;

  ScratchParts(const LogitBlocks& b, std::byte* scratch) {
    int64_t used = 0;
    const auto take = [&](int64_t count, size_t size) {
      std::byte* at = scratch + used;
      used += aligned(count * static_cast<int64_t>(size));
      return at;
    };
    rows = reinterpret_cast<LogitRow*>(take(b.rows, sizeof(LogitRow)));
    order = reinterpret_cast<int*>(take(b.rows, sizeof(int)));
    counted = reinterpret_cast<int*>(take(1, sizeof(int)));
    x = reinterpret_cast<Words*>(take(b.rows * b.hidden, sizeof(Bf16)));
    scaled_x = reinterpret_cast<Words*>(take(b.each * b.hidden, sizeof(Bf16)));
    again = reinterpret_cast<int*>(take(b.count(), sizeof(int)));
    target_logits = reinterpret_cast<float*>(take(b.each, sizeof(float)));
    factors = reinterpret_cast<float*>(take(b.each, sizeof(float)));
    slopes = reinterpret_cast<float*>(take(b.each, sizeof(float)));
    std::byte* shared = take(0, 1);
    sums = reinterpret_cast<LogitSum*>(shared);
    raw_dx = reinterpret_cast<Words*>(shared);
    bytes = used + std::max(aligned(tiles(b) * b.each * static_cast<int64_t>(sizeof(LogitSum))),
                            aligned(b.each * b.hidden * static_cast<int64_t>(sizeof(Bf16))));
  }
  static int64_t tiles(const LogitBlocks& b) { return blocks_for(b.classes, ExponentialEpilogue::kColumns); }
};

// --- device

constexpr int kClosedRows = 16, kCloseThreads = 32 * kClosedRows;  // a warp each
// Z between these bounds shows that the reference is good: the weights of a row's elements, from the largest to those
// far below bf16's precision, are then in f32's range.
constexpr float kMinSum = 0x1p-40f, kMaxSum = 0x1p86f;

// Arguments for one block of rows.
struct CloseArguments {
  int64_t rows, tiles, sums_ld, packs, ld;
  const LogitSum* sums;
  LogitRow* known;
  const float* target_logits;
  float *factors, *slopes;
  Bf16* exponentials;
  const Words* x;
  Words* scaled_x;
  const double* denominator;
  double* row_loss;
  int* again;
  bool second;  // runs only if it was requested
};

// Adds the sums of all tiles for the rows of this thread block, in a fixed order. All lanes of a warp get those of
// the warp's row.
__device__ LogitSum sum_of_row(const CloseArguments& a) {
  constexpr int kParts = kCloseThreads / kClosedRows;
  __shared__ LogitSum partials[kParts][kClosedRows + 1];
  const int in_block = threadIdx.x % kClosedRows, part = threadIdx.x / kClosedRows;
  const int64_t row = int64_t{blockIdx.x} * kClosedRows + in_block;
  LogitSum mine;
  if (row < a.rows)
#pragma unroll 4
    for (int64_t tile = part; tile < a.tiles; tile += kParts) {
      const LogitSum of_tile = a.sums[tile * a.sums_ld + row];
      mine = {mine.sum + of_tile.sum, fmaxf(mine.max, of_tile.max)};
    }
  partials[part][in_block] = mine;
  __syncthreads();
  mine = partials[threadIdx.x % 32][threadIdx.x / 32];
  return {reduce_lanes(mine.sum, 32, Add{}), reduce_lanes(mine.max, 32, Max{})};
}

// Computes the loss and the slope of the target's logit, and clears its exponential; one thread calls it.
__device__ void close_target(const CloseArguments& a, int64_t row, const LogitRow& known, float sum,
                             float factor) {
  const float logit = a.target_logits[row], power = ShiftedPower<Bf16>(known.reference)(logit);
  a.row_loss[row] =
      static_cast<double>(logf(sum)) + (static_cast<double>(known.reference) - static_cast<double>(logit));
  a.slopes[row] = factor * (power - sum);
  a.exponentials[row * a.ld + known.target] = narrow<Bf16>(0.0f);
}

// One warp per row.
__global__ void __launch_bounds__(kCloseThreads) close_rows(const CloseArguments a) {
  begin_in_order();
  if (a.second && *a.again == 0) return;
  const LogitSum total = sum_of_row(a);
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t{blockIdx.x} * kClosedRows + threadIdx.x / 32;
  if (row >= a.rows) return;
  const LogitRow known = a.known[row];
  const bool counts = known.target >= 0;
  if (counts && !a.second && !(total.sum >= kMinSum && total.sum <= kMaxSum)) {
    if (lane != 0) return;
    a.known[row].reference = total.max;
    *a.again = 1;
    return;
  }
  const double scale = a.denominator ? 1 / *a.denominator : 1;
  const float factor = counts ? static_cast<float>(scale / static_cast<double>(total.sum)) : 0.0f;
  if (lane == 0) {
    a.factors[row] = factor;
    if (counts)
      close_target(a, row, known, total.sum, factor);
    else
      a.row_loss[row] = 0;
  }
  for (int64_t i = lane; i < a.packs; i += 32) {
    const Words x = a.x[row * a.packs + i];
    float scaled[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) scaled[j] = element_of<Bf16>(x, j) * factor;
    a.scaled_x[row * a.packs + i] = words_of<Bf16>(scaled);
  }
}

// Computes dx = factor raw + slope weight[target].
struct FinishDx {
  const LogitRow* known;
  const int* order;
  const float *factors, *slopes;
  const Words *weight, *raw;
  Words* dx;
  int64_t packs;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / packs, target = known[row].target;
    float d[8] = {};
    add_pack(d, factors[row], raw[i]);
    if (target >= 0) add_pack(d, slopes[row], weight[target * packs + i % packs]);
    dx[order[row] * packs + i % packs] = words_of<Bf16>(d);
  }
};

// --- host

struct Prepared {
  LogitBlocks blocks;
  std::vector<LogitProducts> first_half, later_half;  // products of half a block
  bool is_here;                                       // this device has the kernel
  int64_t blocks_bytes;                               // scratch memory ahead of the exponentials' own
};

// The rows of one block that are multiplied: all of them, or the first half.
struct Piece {
  int64_t block, rows;
  const std::vector<LogitProducts>& products;
};

// One run of the op; the exponentials take the place of a block's logits.
struct ExponentialRun {
  const Prepared& prepared;
  const KernelContext& c;
  const LogitBlocks& b = prepared.blocks;
  const LogitRun run{c, b};
  const ScratchParts at{b, c.scratch + prepared.blocks_bytes};
  const int64_t packs = b.hidden / 8;

  const Words* x_of(int64_t block) const { return at.x + block * b.each * packs; }
  LogitRow* rows_of(int64_t block) const { return at.rows + block * b.each; }

  Piece whole(int64_t block) const { return {block, b.rows_in(block), b.products(block)}; }
  Piece half(int64_t block) const {
    return {block, b.half(), block == 0 ? prepared.first_half : prepared.later_half};
  }

  // Returns false if the driver refuses. It accepts all pieces or none: they differ by whole rows only.
  bool make_maps(const Piece& piece, CUtensorMap& x, CUtensorMap& weight) const {
    return make_tensor_map({x_of(piece.block), piece.rows, b.hidden, hopper::kTileRows}, x) &&
           make_tensor_map({c.input(1).data, b.classes, b.hidden, hopper::kTileColumns}, weight);
  }

  CloseArguments close_arguments(const Piece& piece) const {
    CloseArguments a{};
    a.rows = piece.rows;
    a.tiles = ScratchParts::tiles(b);
    a.sums_ld = b.each;
    a.packs = packs;
    a.ld = b.ld;
    a.sums = at.sums;
    a.known = rows_of(piece.block);
    a.target_logits = at.target_logits;
    a.factors = at.factors;
    a.slopes = at.slopes;
    a.exponentials = reinterpret_cast<Bf16*>(run.logits);
    a.x = x_of(piece.block);
    a.scaled_x = at.scaled_x;
    a.denominator = run.divisor;
    a.row_loss = run.row_loss + piece.block * b.each;
    a.again = at.again + piece.block;
    return a;
  }

  ExponentialEpilogue epilogue(const CloseArguments& a) const {
    return {.rows = a.known,
            .exponentials = a.exponentials,
            .ld = a.ld,
            .target_logits = at.target_logits,
            .sums = at.sums,
            .sums_ld = a.sums_ld,
            .wanted = a.second ? a.again : nullptr};
  }

  void start_order() const {
    start(c, order_rows, 1, kOrderThreads, 0,
          OrderArguments{run.targets, b.rows, launch_of(c).fault, at.order, at.counted, run.denominator});
    start(c, refer_rows, blocks_for(b.rows, kReferenceWarps), kReferenceWarps * 32, 0,
          ReferenceArguments{c.input(0).as<const Words>(), c.input(1).as<const Words>(), run.targets, b.rows,
                             packs, b.count(), at.order, at.x, c.output(1).as<Words>(), at.rows, run.row_loss,
                             at.again});
  }

  // Computes the exponentials of a piece, and x times its rows' factors.
  void start_exponentials(const Piece& piece) const {
    CloseArguments a = close_arguments(piece);
    CUtensorMap x, weight;
    make_maps(piece, x, weight);
    const Launch launch = behind_own_kernel(c);
    for (const bool second : {false, true}) {
      a.second = second;
      hopper::start_product(launch, x, weight,
                            hopper::sizes_of_product<ExponentialEpilogue>(a.rows, b.classes, b.hidden),
                            epilogue(a));
      start_with_pdl(launch, close_rows, static_cast<unsigned>(blocks_for(a.rows, kClosedRows)),
                     kCloseThreads, 0, a);
    }
  }

  void add_to_dweight(const Piece& piece) const {
    const TargetArguments targets{piece.rows,           packs,
                                  rows_of(piece.block), at.slopes,
                                  x_of(piece.block),    static_cast<float4*>(c.output(2).data)};
    add_targets<<<dim3(static_cast<unsigned>(piece.rows),
                       static_cast<unsigned>(blocks_for(packs, kTargetThreads))),
                  kTargetThreads, 0, launch_of(c).stream>>>(targets);
  }

  // Completes both gradients, after exponentials^T scaled_x was added to dweight and raw_dx = exponentials weight was
  // computed.
  void finish_gradients(const Piece& piece) const {
    if (b.weight_gradient) add_to_dweight(piece);
    for_each(c, piece.rows * packs,
             FinishDx{rows_of(piece.block), at.order + piece.block * b.each, at.factors, at.slopes,
                      c.input(1).as<const Words>(), at.raw_dx, c.output(1).as<Words>(), packs});
  }

  void start_piece(const Piece& piece) const {
    start_exponentials(piece);
    run.add_gradients(piece.products, at.scaled_x, at.raw_dx);
    finish_gradients(piece);
  }

  // Captures a block of which only the rows that count are multiplied, which the graph decides when it runs.
  void capture_block(int64_t block) const {
    const bool has_half = b.half() > 0 && b.half() < b.rows_in(block);
    const cudaStream_t stream = launch_of(c).stream;
    const cudaGraphConditionalHandle choice = make_choice(stream);
    start(c, choose_piece, 1, 1, 0, choice, at.counted, block * b.each, has_half ? b.half() : 0);
    capture_choice(stream, choice, has_half ? 2 : 1, [&](int piece, cudaStream_t inside) {
      Launch launch = launch_of(c);
      launch.stream = inside;
      launch.can_use_pdl = launch.early = false;
      KernelContext context = c;
      context.launch = &launch;
      const ExponentialRun body{prepared, context};
      body.start_piece(piece == kHalfBlock ? body.half(block) : body.whole(block));
    });
  }
};

// Does not ask a GPU.
std::optional<std::string> decline(const KernelQuery& query) {
  constexpr int64_t kMax = int64_t{1} << 29;
  const LogitBlocks b = cut_rows(query);
  if (!b.gradients || b.dtype != DType::bf16) return "it takes training in bf16";
  if (from_attributes<ops::LinearCrossEntropy>(query.attributes).label_smoothing != 0)
    return "it takes no label smoothing";
  if (b.rows == 0 || b.classes == 0 || b.hidden == 0) return "there is nothing to do";
  if (b.hidden % 8 != 0) return "rows are no multiple of 16 bytes";
  if (b.rows >= kMax || b.classes >= kMax || b.hidden >= kMax) return "it counts in i32";
  return std::nullopt;
}

int64_t logit_exponentials_scratch(const KernelQuery& query) {
  return (CheckedSize(blocks_scratch_bytes(query)) + ScratchParts(cut_rows(query), nullptr).bytes).value();
}

std::shared_ptr<const void> prepare_logit_exponentials(const KernelQuery& query) {
  const bool is_here = hopper::has_hopper_code<ExponentialEpilogue>();
  const auto p = std::make_shared<Prepared>(
      Prepared{prepare_blocks(query, !is_here), {}, {}, is_here, blocks_scratch_bytes(query)});
  const LogitBlocks& b = p->blocks;
  const auto half = [&](bool adds) { return prepare_products(query, b, b.half(), adds, false); };
  if (is_here && b.half() > 0) p->first_half = half(false);
  if (is_here && b.half() > 0 && b.count() > 1) p->later_half = half(true);
  return p;
}

void run_logit_exponentials(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  const ExponentialRun own{p, c};
  CUtensorMap x, weight;
  if (!p.is_here || !aligned_to_packs(c) || !own.make_maps(own.whole(0), x, weight))
    return run_row_blocks(c, p.blocks);
  own.start_order();
  const bool chooses = is_captured(launch_of(c).stream);
  for (int64_t block = 0; block < p.blocks.count(); ++block)
    chooses ? own.capture_block(block) : own.start_piece(own.whole(block));
  own.run.put_loss();
}

}  // namespace

KernelImpl exponentials_implementation() {
  return {.name = "exponentials",
          .run = run_logit_exponentials,
          .can_run = decline,
          .scratch_bytes = logit_exponentials_scratch,
          .prepare = prepare_logit_exponentials,
          .why_not_here = why_no_hopper_here};
}

}  // namespace genesis::cuda
