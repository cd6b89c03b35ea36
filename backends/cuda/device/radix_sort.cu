// Least significant digit first. A tile of a row belongs to one block; within it keys keep their order, since
// each warp ranks its keys by how many of the same digit stand before them.
#include "backends/cuda/device/radix_sort.h"

#include <utility>

#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

constexpr int kDigits = 256, kWarps = kThreads / 32, kRounds = 16;
constexpr int64_t kTile = int64_t{kThreads} * kRounds;
static_assert(kDigits == kThreads, "one thread per digit");

int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
int64_t tiles_of(const SortShape& shape) { return blocks_for(shape.n, kTile); }

struct Pass {
  int64_t n, tiles;
  int shift;
};

template <class Key>
__device__ int digit_of(Key key, int shift) {
  return static_cast<int>(key >> shift) & (kDigits - 1);
}

// counts[row][digit][tile]
template <class Key>
__global__ void __launch_bounds__(kThreads) count_digits(Pass pass, const Key* keys, uint32_t* counts) {
  __shared__ uint32_t count[kDigits];
  const int64_t row = blockIdx.x / pass.tiles, tile = blockIdx.x % pass.tiles;
  count[threadIdx.x] = 0;
  __syncthreads();
  const int64_t last = min(pass.n, (tile + 1) * kTile);
  for (int64_t i = tile * kTile + threadIdx.x; i < last; i += kThreads)
    atomicAdd(&count[digit_of(keys[row * pass.n + i], pass.shift)], 1u);
  __syncthreads();
  counts[(row * kDigits + threadIdx.x) * pass.tiles + tile] = count[threadIdx.x];
}

// One block per row and digit: counts of the tiles before, and the total.
__global__ void __launch_bounds__(kThreads) add_up_tiles(int64_t tiles, uint32_t* counts, uint32_t* totals) {
  uint32_t* mine = counts + int64_t{blockIdx.x} * tiles;
  uint32_t before = 0;
  for (int64_t first = 0; first < tiles; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const uint32_t count = i < tiles ? mine[i] : 0;
    const BlockScan<uint32_t> scan = block_scan(count);
    if (i < tiles) mine[i] = before + scan.before;
    before += scan.total;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// `places_in` is null in the first pass: keys stand where they are.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    move_keys(Pass pass, const Key* keys_in, const uint32_t* places_in, const uint32_t* counts,
              const uint32_t* totals, Key* keys_out, uint32_t* places_out) {
  __shared__ uint32_t warp_counts[kWarps][kDigits];
  __shared__ uint32_t base[kDigits];
  const int64_t row = blockIdx.x / pass.tiles, tile = blockIdx.x % pass.tiles;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = tile * kTile + int64_t{warp} * 32 * kRounds + lane;
  keys_in += row * pass.n;
  for (int w = 0; w < kWarps; ++w) warp_counts[w][threadIdx.x] = 0;
  __syncthreads();

  Key keys[kRounds];
  uint32_t ranks[kRounds];  // among the keys of this warp with the same digit
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int64_t i = first + r * 32;
    keys[r] = i < pass.n ? keys_in[i] : Key(0);
    const int digit = i < pass.n ? digit_of(keys[r], pass.shift) : kDigits;  // beyond the end: no digit
    const unsigned same = __match_any_sync(~0u, digit);
    const uint32_t before = digit < kDigits ? warp_counts[warp][digit] : 0;
    ranks[r] = before + static_cast<uint32_t>(__popc(same & ((1u << lane) - 1)));
    __syncwarp();
    if (digit < kDigits && lane == __ffs(same) - 1)
      warp_counts[warp][digit] = before + static_cast<uint32_t>(__popc(same));
    __syncwarp();
  }
  __syncthreads();

  const int64_t slot = row * kDigits + threadIdx.x;
  const BlockScan<uint32_t> smaller = block_scan(totals[slot]);
  base[threadIdx.x] = smaller.before + counts[slot * pass.tiles + tile];
  uint32_t sum = 0;
  for (int w = 0; w < kWarps; ++w) {
    const uint32_t count = warp_counts[w][threadIdx.x];
    warp_counts[w][threadIdx.x] = sum;
    sum += count;
  }
  __syncthreads();

#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int64_t i = first + r * 32;
    if (i >= pass.n) break;
    const int digit = digit_of(keys[r], pass.shift);
    const int64_t to = row * pass.n + base[digit] + warp_counts[warp][digit] + ranks[r];
    keys_out[to] = keys[r];
    places_out[to] = places_in ? places_in[row * pass.n + i] : static_cast<uint32_t>(i);
  }
}

template <class Key>
int sort_keys(const KernelContext& c, const SortShape& shape, const SortBuffers& b) {
  Pass pass{shape.n, tiles_of(shape), 0};
  const int64_t blocks = shape.rows * pass.tiles;
  int from = 0;
  for (; pass.shift < shape.bits || pass.shift == 0; pass.shift += 8, from ^= 1) {
    const Key* keys = static_cast<const Key*>(b.keys[from]);
    start(c, count_digits<Key>, blocks, kThreads, 0, pass, keys, b.counts);
    start(c, add_up_tiles, shape.rows * kDigits, kThreads, 0, pass.tiles, b.counts, b.totals);
    start(c, move_keys<Key>, blocks, kThreads, 0, pass, keys, pass.shift == 0 ? nullptr : b.places[from],
          b.counts, b.totals, static_cast<Key*>(b.keys[from ^ 1]), b.places[from ^ 1]);
  }
  return from;
}

}  // namespace

int64_t sort_scratch_bytes(const SortShape& shape) {
  const CheckedSize rows = shape.rows, count = rows * shape.n;
  return (2 * (count * shape.key_bytes).rounded_up(64) + 2 * (count * 4).rounded_up(64) +
          (rows * kDigits * tiles_of(shape) * 4).rounded_up(64) + (rows * kDigits * 4).rounded_up(64))
      .value();
}

SortBuffers sort_buffers(const SortShape& shape, std::byte* scratch) {
  const auto take = [&](int64_t bytes) { return std::exchange(scratch, scratch + padded(bytes)); };
  const int64_t count = shape.rows * shape.n;
  SortBuffers b;
  for (void*& keys : b.keys) keys = take(count * shape.key_bytes);
  for (uint32_t*& places : b.places) places = reinterpret_cast<uint32_t*>(take(count * 4));
  b.counts = reinterpret_cast<uint32_t*>(take(shape.rows * kDigits * tiles_of(shape) * 4));
  b.totals = reinterpret_cast<uint32_t*>(take(shape.rows * kDigits * 4));
  return b;
}

int radix_sort(const KernelContext& c, const SortShape& shape, const SortBuffers& buffers) {
  if (shape.rows * shape.n == 0) return 0;
  return shape.key_bytes == 4 ? sort_keys<uint32_t>(c, shape, buffers)
                              : sort_keys<uint64_t>(c, shape, buffers);
}

}  // namespace genesis::cuda
