#include "backends/cuda/hopper/logit_exponentials.h"

#include "backends/cuda/hopper/logit_epilogue.h"
#include "backends/cuda/hopper/logit_targets.h"
#include "backends/cuda/hopper/tensor_map.h"

namespace genesis::cuda {
namespace {

using hopper::ExponentialEpilogue;
using hopper::LogitRow;
using hopper::LogitSum;
using Bf16 = ExponentialEpilogue::Bf16;

constexpr int64_t kAligned = 256;
int64_t aligned(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

// Where a call keeps what.
struct Places {
  LogitRow* rows;        // [rows]
  int* again;            // [blocks]: a reference was bad
  float* target_logits;  // [each]
  float* factors;        // [each]
  float* slopes;         // [each]: what the target's logit adds to the gradients
  LogitSum* sums;        // [column tiles, each], until the factors are there
  Words* raw_dx;         // [each, hidden] in bf16, from then on
  int64_t bytes;

  Places(const ExponentialShape& s, std::byte* scratch) {
    int64_t used = 0;
    const auto take = [&](int64_t count, size_t size) {
      std::byte* at = scratch + used;
      used += aligned(count * static_cast<int64_t>(size));
      return at;
    };
    rows = reinterpret_cast<LogitRow*>(take(s.rows, sizeof(LogitRow)));
    again = reinterpret_cast<int*>(take(s.blocks(), sizeof(int)));
    target_logits = reinterpret_cast<float*>(take(s.each, sizeof(float)));
    factors = reinterpret_cast<float*>(take(s.each, sizeof(float)));
    slopes = reinterpret_cast<float*>(take(s.each, sizeof(float)));
    std::byte* shared = take(0, 1);
    sums = reinterpret_cast<LogitSum*>(shared);
    raw_dx = reinterpret_cast<Words*>(shared);
    bytes = used + std::max(aligned(tiles(s) * s.each * static_cast<int64_t>(sizeof(LogitSum))),
                            aligned(s.each * s.hidden * static_cast<int64_t>(sizeof(Bf16))));
  }
  static int64_t tiles(const ExponentialShape& s) {
    return blocks_for(s.classes, ExponentialEpilogue::kColumns);
  }
};

int64_t rows_in(const ExponentialShape& s, int64_t block) {
  return std::min(s.each, s.rows - block * s.each);
}

// --- device

constexpr int kClosedRows = 16, kCloseThreads = 32 * kClosedRows;  // a warp each
// Between which Z tells of a good reference: what an element of a row weighs is then in f32's range from its
// largest to far below what bf16 shows beside it.
constexpr float kMinSum = 0x1p-40f, kMaxSum = 0x1p86f;

// Of one block of rows.
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
  bool second;  // to be done only where it is asked for
};

// What all tiles have of the rows of this thread block, in one order; of the warp's row in all its lanes.
__device__ LogitSum sum_of_row(const CloseArguments& a) {
  constexpr int kParts = kCloseThreads / kClosedRows;
  __shared__ LogitSum parts[kParts][kClosedRows + 1];
  const int in_block = threadIdx.x % kClosedRows, part = threadIdx.x / kClosedRows;
  const int64_t row = int64_t{blockIdx.x} * kClosedRows + in_block;
  LogitSum mine;
  if (row < a.rows)
#pragma unroll 4
    for (int64_t tile = part; tile < a.tiles; tile += kParts) {
      const LogitSum of_tile = a.sums[tile * a.sums_ld + row];
      mine = {mine.sum + of_tile.sum, fmaxf(mine.max, of_tile.max)};
    }
  parts[part][in_block] = mine;
  __syncthreads();
  mine = parts[threadIdx.x % 32][threadIdx.x / 32];
  return {reduce_lanes(mine.sum, 32, Add{}), reduce_lanes(mine.max, 32, Max{})};
}

// By one thread: the loss, and the slope of the target's logit, which its exponential then stands for no
// longer.
__device__ void close_target(const CloseArguments& a, int64_t row, const LogitRow& known, float sum,
                             float factor) {
  const float logit = a.target_logits[row], power = ShiftedPower<Bf16>(known.reference)(logit);
  a.row_loss[row] =
      static_cast<double>(logf(sum)) + (static_cast<double>(known.reference) - static_cast<double>(logit));
  a.slopes[row] = factor * (power - sum);
  a.exponentials[row * a.ld + known.target] = narrow<Bf16>(0.0f);
}

// A warp per row.
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

// dx = factor raw + slope weight[target].
struct FinishDx {
  const LogitRow* known;
  const float *factors, *slopes;
  const Words *weight, *raw;
  Words* dx;
  int64_t packs;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / packs, target = known[row].target;
    float d[8] = {};
    add_pack(d, factors[row], raw[i]);
    if (target >= 0) add_pack(d, slopes[row], weight[target * packs + i % packs]);
    dx[i] = words_of<Bf16>(d);
  }
};

// --- host

CloseArguments close_arguments(const ExponentialCall& call, int64_t block, void* exponentials,
                               void* scaled_x) {
  const ExponentialShape& s = call.shape;
  const Places at(s, call.scratch);
  const int64_t first = block * s.each;
  CloseArguments a{};
  a.rows = rows_in(s, block);
  a.tiles = Places::tiles(s);
  a.sums_ld = s.each;
  a.packs = s.hidden / 8;
  a.ld = s.ld;
  a.sums = at.sums;
  a.known = at.rows + first;
  a.target_logits = at.target_logits;
  a.factors = at.factors;
  a.slopes = at.slopes;
  a.exponentials = static_cast<Bf16*>(exponentials);
  a.x = static_cast<const Words*>(call.x) + first * a.packs;
  a.scaled_x = static_cast<Words*>(scaled_x);
  a.denominator = call.denominator;
  a.row_loss = call.row_loss + first;
  a.again = at.again + block;
  return a;
}

ExponentialEpilogue end_of(const ExponentialCall& call, const CloseArguments& a) {
  return {.rows = a.known,
          .exponentials = a.exponentials,
          .ld = a.ld,
          .target_logits = Places(call.shape, call.scratch).target_logits,
          .sums = Places(call.shape, call.scratch).sums,
          .sums_ld = a.sums_ld,
          .wanted = a.second ? a.again : nullptr};
}

}  // namespace

bool exponentials_fit(const ExponentialShape& s) {
  constexpr int64_t kMax = int64_t{1} << 29;
  return s.rows > 0 && s.classes > 0 && s.hidden > 0 && s.hidden % 8 == 0 && s.ld % 8 == 0 && s.rows < kMax &&
         s.classes < kMax && s.hidden < kMax;
}

int64_t exponential_scratch_bytes(const ExponentialShape& shape) { return Places(shape, nullptr).bytes; }

bool has_exponentials() { return has_tensor_maps() && hopper::has_hopper_code<ExponentialEpilogue>(); }

void* ExponentialCall::raw_dx() const { return Places(shape, scratch).raw_dx; }

void start_references(const KernelContext& c, const ExponentialCall& call) {
  const ExponentialShape& s = call.shape;
  const Places at(s, call.scratch);
  start(c, refer_rows, blocks_for(s.rows, kReferenceWarps), kReferenceWarps * 32, 0,
        ReferenceArguments{static_cast<const Words*>(call.x), static_cast<const Words*>(call.weight),
                           call.targets, s.rows, s.hidden / 8, s.blocks(), at.rows, at.again});
}

bool try_exponentials(const KernelContext& c, const ExponentialCall& call, int64_t block, void* exponentials,
                      void* scaled_x) {
  const ExponentialShape& s = call.shape;
  CloseArguments a = close_arguments(call, block, exponentials, scaled_x);
  CUtensorMap x, weight;
  if (!make_tensor_map({a.x, a.rows, s.hidden, hopper::kTileRows}, x) ||
      !make_tensor_map({call.weight, s.classes, s.hidden, hopper::kTileColumns}, weight))
    return false;
  const Launch launch = behind_own_kernel(c);
  for (const bool second : {false, true}) {
    a.second = second;
    hopper::start_product(launch, x, weight,
                          hopper::sizes_of_product<ExponentialEpilogue>(a.rows, s.classes, s.hidden),
                          end_of(call, a));
    start_with_pdl(launch, close_rows, static_cast<unsigned>(blocks_for(a.rows, kClosedRows)), kCloseThreads,
                   0, a);
  }
  return true;
}

void finish_gradients(const KernelContext& c, const ExponentialCall& call, int64_t block, void* dx,
                      void* dweight) {
  const ExponentialShape& s = call.shape;
  const Places at(s, call.scratch);
  const int64_t packs = s.hidden / 8, first = block * s.each, rows = rows_in(s, block);
  const LogitRow* known = at.rows + first;
  const TargetArguments targets{rows,
                                packs,
                                known,
                                at.slopes,
                                static_cast<const Words*>(call.x) + first * packs,
                                static_cast<float4*>(dweight)};
  add_targets<<<dim3(static_cast<unsigned>(rows), static_cast<unsigned>(blocks_for(packs, kTargetThreads))),
                kTargetThreads, 0, launch_of(c).stream>>>(targets);
  for_each(c, rows * packs,
           FinishDx{known, at.factors, at.slopes, static_cast<const Words*>(call.weight), at.raw_dx,
                    static_cast<Words*>(dx), packs});
}

}  // namespace genesis::cuda
