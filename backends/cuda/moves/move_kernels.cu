// The kernels behind backends/cuda/moves/moves.h: copies of items in the order of the target (contiguous rows move 16
// bytes per item), copies whose target or source depends on numbers on the device, and transposes, which go through a
// tile in shared memory so that both sides are accessed in whole rows.
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/moves/moves.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kBatch = 8;  // moves per launch: their parameters fill 4 KB

struct MoveBatch {
  int count = 0;
  int64_t first_block[kBatch + 1] = {};
  DeviceMove moves[kBatch];
};

struct Offsets {
  int64_t to = 0, from = 0;
};

__device__ Offsets offsets_of(const DeviceMove& move, int64_t item, bool small) {
  Offsets offsets;
  uint64_t rest = static_cast<uint64_t>(item);
  for (int axis = move.rank - 1; axis >= 0; --axis) {
    uint64_t at = rest;  // the outermost axis takes the rest
    if (axis > 0) {
      const FlatIndex split = divide(rest, move.dims[axis], small);
      at = split.remainder, rest = split.quotient;
    }
    offsets.to += static_cast<int64_t>(at) * move.to_strides[axis];
    offsets.from += static_cast<int64_t>(at) * move.from_strides[axis];
  }
  return offsets;
}

// Returns an element of 1, 2, 4 or 8 bytes, repeated to fill 8 bytes.
__device__ uint64_t repeated(const std::byte* from, int bytes) {
  switch (bytes) {
    case 1:
      return *reinterpret_cast<const uint8_t*>(from) * uint64_t{0x0101010101010101};
    case 2:
      return *reinterpret_cast<const uint16_t*>(from) * uint64_t{0x0001000100010001};
    case 4:
      return *reinterpret_cast<const uint32_t*>(from) * uint64_t{0x0000000100000001};
    default:
      return *reinterpret_cast<const uint64_t*>(from);
  }
}

template <class Item>
__device__ Item low_bytes(uint64_t repeated) {
  return static_cast<Item>(repeated);
}
template <>
__device__ ulonglong2 low_bytes<ulonglong2>(uint64_t repeated) {
  return {repeated, repeated};
}

template <class Item>
__device__ Item load(const DeviceMove& move, int64_t at) {
  if (move.splat == 0) return *reinterpret_cast<const Item*>(move.from + at);
  return low_bytes<Item>(move.from ? repeated(move.from + at, move.splat) : move.pattern);
}

// All loads of a thread are in flight before its first store.
template <class Item, int kItems>
__device__ void move_items(const DeviceMove& move, int64_t block, Offsets shift) {
  const bool small = is_small(move.items);
  const int64_t first = block * kItems * kThreads + threadIdx.x;
  Item items[kItems];
  int64_t to[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int64_t item = first + k * kThreads;
    if (item >= move.items) break;
    const Offsets offsets = offsets_of(move, item, small);
    items[k] = load<Item>(move, offsets.from + shift.from);
    to[k] = offsets.to + shift.to;
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    if (first + k * kThreads < move.items) *reinterpret_cast<Item*>(move.to + to[k]) = items[k];
}

template <class Item>
__device__ void move_block(const DeviceMove& move, int64_t block, Offsets shift) {
  if (move.per_thread == 1)
    move_items<Item, 1>(move, block, shift);
  else
    move_items<Item, 4>(move, block, shift);
}

__device__ void move_any(const DeviceMove& move, int64_t block, Offsets shift) {
  switch (move.width) {
    case 1:
      return move_block<uint8_t>(move, block, shift);
    case 2:
      return move_block<uint16_t>(move, block, shift);
    case 4:
      return move_block<uint32_t>(move, block, shift);
    case 8:
      return move_block<uint64_t>(move, block, shift);
    default:
      return move_block<ulonglong2>(move, block, shift);
  }
}

__global__ void __launch_bounds__(kThreads) move_kernel(const __grid_constant__ MoveBatch batch) {
  begin_in_order();
  int i = 0;
  while (i + 1 < batch.count && static_cast<int64_t>(blockIdx.x) >= batch.first_block[i + 1]) ++i;
  move_any(batch.moves[i], static_cast<int64_t>(blockIdx.x) - batch.first_block[i], Offsets{});
}

int64_t blocks_of(const DeviceMove& move) {
  return blocks_for(move.items, int64_t{kThreads} * move.per_thread);
}

void start_batch(const KernelContext& c, MoveBatch& batch) {
  start_with_pdl(c, move_kernel, batch.first_block[batch.count], kThreads, 0, batch);
  batch.count = 0;
}

void add_to_batch(const KernelContext& c, MoveBatch& batch, const DeviceMove& move) {
  if (move.items == 0) return;
  batch.moves[batch.count] = move;
  batch.first_block[batch.count + 1] = batch.first_block[batch.count] + blocks_of(move);
  if (++batch.count == kBatch) start_batch(c, batch);
}

// --- one copy whose start is a number on the device

__device__ int64_t number_at(const void* numbers, bool is_i32, int64_t i) {
  return is_i32 ? int64_t{static_cast<const int32_t*>(numbers)[i]} : static_cast<const int64_t*>(numbers)[i];
}

struct DynamicOffset {
  const void* start;
  bool is_i32;
  int64_t last;                // greatest start that fits
  int64_t to_step, from_step;  // bytes
};

__global__ void __launch_bounds__(kThreads)
    dynamic_kernel(const __grid_constant__ DeviceMove move, const __grid_constant__ DynamicOffset offset) {
  begin_in_order();
  int64_t at = number_at(offset.start, offset.is_i32, 0);
  at = at < 0 ? 0 : at > offset.last ? offset.last : at;
  move_any(move, blockIdx.x, {at * offset.to_step, at * offset.from_step});
}

// --- runs whose targets depend on numbers on the device

struct RunCopies {
  const std::byte* from;
  std::byte* to;
  const void *starts, *lengths;  // one per row; lengths may be null: whole updates, clamped to fit
  bool is_i32;
  RunUpdate runs;
  FaultReport fault;
};

// Returns the start of a row's update, or -1 if the step is not written. A bad length or start is reported once per
// row.
__device__ int64_t start_of(const RunCopies& c, int64_t row, int64_t step, bool reports) {
  const int64_t start = number_at(c.starts, c.is_i32, row);
  if (!c.lengths) return max(int64_t{0}, min(start, c.runs.positions - c.runs.steps));
  const int64_t count = number_at(c.lengths, c.is_i32, row);
  const bool is_length = count >= 0 && count <= c.runs.steps;
  if (!is_length && reports) c.fault(count, c.runs.steps + 1);
  if (!is_length) return -1;
  const bool fits = start >= 0 && start <= c.runs.positions - count;
  if (!fits && reports) c.fault(start, c.runs.positions - count + 1);
  return fits && step < count ? start : -1;
}

// Moves one run by all threads of a block, in words of type T.
template <class T>
__device__ void move_run(const RunCopies& c, int64_t run) {
  const int64_t step = run % c.runs.steps, piece = run / c.runs.steps;
  const bool reports = threadIdx.x == 0 && step == 0 && piece % c.runs.outer == 0;
  const int64_t start = start_of(c, piece / c.runs.outer, step, reports);
  if (start < 0) return;
  const auto* from = reinterpret_cast<const T*>(c.from + run * c.runs.bytes);
  auto* to = reinterpret_cast<T*>(c.to + (piece * c.runs.positions + start + step) * c.runs.bytes);
  const int64_t words = c.runs.bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t i = threadIdx.x; i < words; i += kThreads) to[i] = from[i];
}

template <class T>
__global__ void __launch_bounds__(kThreads) runs_kernel(const __grid_constant__ RunCopies c) {
  begin_in_order();
  const int64_t count = c.runs.rows * c.runs.outer * c.runs.steps;
  for (int64_t run = blockIdx.x; run < count; run += gridDim.x) move_run<T>(c, run);
}

// --- transposes

struct Transpose {
  const std::byte* from;
  std::byte* to;
  int64_t rows, columns;           // the source as matrices; its rows become columns of the target
  int64_t from_stride, to_stride;  // elements between rows of the source, and of the target
  uint32_t row_tiles, column_tiles;
  int32_t outer_rank;
  int64_t outer_dims[kMaxRank], outer_to[kMaxRank], outer_from[kMaxRank];  // strides in elements
};

// One tile per block. An access has N elements; rows and columns are multiples of N.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) transpose_kernel(const __grid_constant__ Transpose t) {
  constexpr int kTile = sizeof(T) == 8 ? 32 : 64;
  constexpr int kPitch = kTile + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);  // odd number of words: no conflicts
  constexpr int kPacks = kTile / N, kRows = kThreads / kPacks;         // rows of one pass
  using P = Pack<T, N>;
  __shared__ T tile[kTile * kPitch];

  uint32_t rest = blockIdx.x;
  const int64_t column0 = static_cast<int64_t>(rest % t.column_tiles) * kTile;
  rest /= t.column_tiles;
  const int64_t row0 = static_cast<int64_t>(rest % t.row_tiles) * kTile;
  rest /= t.row_tiles;
  const T* from = reinterpret_cast<const T*>(t.from);
  T* to = reinterpret_cast<T*>(t.to);
  for (int axis = t.outer_rank - 1; axis >= 0; --axis) {
    const auto size = static_cast<uint32_t>(t.outer_dims[axis]), at = rest % size;
    rest /= size;
    from += at * t.outer_from[axis];
    to += at * t.outer_to[axis];
  }
  const int major = static_cast<int>(threadIdx.x) / kPacks,
            minor = static_cast<int>(threadIdx.x) % kPacks * N;
  P packs[kTile / kRows];
#pragma unroll
  for (int i = 0; i < kTile / kRows; ++i) {
    const int64_t row = row0 + major + i * kRows, column = column0 + minor;
    if (row < t.rows && column < t.columns)
      packs[i] = *reinterpret_cast<const P*>(from + row * t.from_stride + column);
  }
#pragma unroll
  for (int i = 0; i < kTile / kRows; ++i)
#pragma unroll
    for (int k = 0; k < N; ++k) tile[(major + i * kRows) * kPitch + minor + k] = packs[i].at[k];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile / kRows; ++i) {
    const int64_t column = column0 + major + i * kRows, row = row0 + minor;
    if (column >= t.columns || row >= t.rows) continue;
    P pack;
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = tile[(minor + k) * kPitch + major + i * kRows];
    *reinterpret_cast<P*>(to + column * t.to_stride + row) = pack;
  }
}

constexpr int64_t kShortest = 16;  // with fewer rows or columns, tiles would stay mostly empty

bool is_transpose(const StridedCopy& copy) {
  return !copy.empty && copy.transposed >= 0 && copy.element <= 8 &&
         copy.dims[static_cast<size_t>(copy.transposed)] >= kShortest &&
         copy.dims[static_cast<size_t>(copy.rank - 1)] >= kShortest;
}

Transpose make_transpose(const StridedCopy& copy, void* to, const void* from) {
  Transpose t{};
  const auto wide = static_cast<size_t>(copy.transposed), last = static_cast<size_t>(copy.rank - 1);
  t.from = static_cast<const std::byte*>(from) + copy.from_offset;
  t.to = static_cast<std::byte*>(to) + copy.to_offset;
  t.rows = copy.dims[last], t.columns = copy.dims[wide];
  t.from_stride = copy.from[last], t.to_stride = copy.to[wide];
  for (size_t i = 0; i < last; ++i) {
    if (i == wide) continue;
    t.outer_dims[t.outer_rank] = copy.dims[i];
    t.outer_to[t.outer_rank] = copy.to[i];
    t.outer_from[t.outer_rank++] = copy.from[i];
  }
  return t;
}

// Returns whether every access of N elements starts at a multiple of its size.
bool fits_packs(const Transpose& t, int64_t n, int64_t element) {
  int64_t all = t.rows | t.columns | t.from_stride | t.to_stride;
  for (int i = 0; i < t.outer_rank; ++i) all |= t.outer_to[i] | t.outer_from[i];
  const auto addresses = reinterpret_cast<uintptr_t>(t.from) | reinterpret_cast<uintptr_t>(t.to);
  return all % n == 0 && addresses % static_cast<uintptr_t>(n * element) == 0;
}

template <class T, int N>
void start_transpose(const KernelContext& c, Transpose t) {
  constexpr int64_t kTile = sizeof(T) == 8 ? 32 : 64;
  t.row_tiles = static_cast<uint32_t>(blocks_for(t.rows, kTile));
  t.column_tiles = static_cast<uint32_t>(blocks_for(t.columns, kTile));
  int64_t blocks = int64_t{t.row_tiles} * t.column_tiles;
  for (int i = 0; i < t.outer_rank; ++i) blocks *= t.outer_dims[i];
  start(c, transpose_kernel<T, N>, blocks, kThreads, 0, t);
}

void run_transpose(const KernelContext& c, const StridedCopy& copy, void* to, const void* from) {
  const Transpose t = make_transpose(copy, to, from);
  const auto by_element = [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWidest = 16 / sizeof(T);
    if (fits_packs(t, kWidest, sizeof(T)))
      start_transpose<T, kWidest>(c, t);
    else
      start_transpose<T, 1>(c, t);
  };
  switch (copy.element) {
    case 1:
      return by_element(Tag<uint8_t>{});
    case 2:
      return by_element(Tag<uint16_t>{});
    case 4:
      return by_element(Tag<uint32_t>{});
    default:
      return by_element(Tag<uint64_t>{});
  }
}

uint64_t repeated_pattern(const Moves& moves, int64_t element) {
  uint64_t pattern = 0;
  for (int64_t i = 7; i >= 0; --i)
    pattern = pattern << 8 | static_cast<uint64_t>(moves.pattern[static_cast<size_t>(i % element)]);
  return pattern;
}

}  // namespace

void run_moves(const KernelContext& c) {
  const auto& moves = c.prepared<Moves>();
  MoveBatch batch;
  for (const Moves::Move& move : moves.moves) {
    void* to = c.output(move.output).data;
    const void* from = move.input == Moves::kPattern ? nullptr : c.input(move.input).data;
    if (from != nullptr && is_transpose(move.copy)) {
      run_transpose(c, move.copy, to, from);
      continue;
    }
    add_to_batch(c, batch,
                 make_device_move(move.copy, to, from, repeated_pattern(moves, move.copy.element), 0));
    if (moves.ordered) start_batch(c, batch);
  }
  start_batch(c, batch);
}

void run_copy(const KernelContext& c, const StridedCopy& copy, void* to, const void* from) {
  MoveBatch batch;
  add_to_batch(c, batch, make_device_move(copy, to, from, 0, 0));
  start_batch(c, batch);
}

void copy_whole(const KernelContext& c, const TensorView& to, const TensorView& from) {
  if (to.data == from.data) return;
  const int64_t dims[] = {to.numel()}, strides[] = {1};
  run_copy(c, make_strided_copy(dims, strides, strides, static_cast<int64_t>(size_of(to.dtype))), to.data,
           from.data);
}

void run_dynamic_copy(const KernelContext& c, const DynamicCopy& dynamic, void* to, const void* from,
                      const TensorView& start_at, Moving moving) {
  const DeviceMove move = make_device_move(dynamic.copy, to, from, 0, dynamic.step_bytes);
  const DynamicOffset offset{start_at.data, start_at.dtype == DType::i32, dynamic.last,
                             moving == Moving::kTarget ? dynamic.step_bytes : 0,
                             moving == Moving::kSource ? dynamic.step_bytes : 0};
  start_with_pdl(c, dynamic_kernel, blocks_of(move), kThreads, 0, move, offset);
}

void update_runs(const KernelContext& c, const RunUpdate& runs) {
  constexpr int64_t kMaxBlocks = 1 << 20;
  const int64_t blocks = std::min(runs.rows * runs.outer * runs.steps, kMaxBlocks);
  if (blocks == 0 || runs.bytes == 0) return;
  const bool lengths = c.inputs.size() > 3;
  const RunCopies copies{c.input(1).as<const std::byte>(),
                         c.output().as<std::byte>(),
                         c.input(2).data,
                         lengths ? c.input(3).data : nullptr,
                         c.input(2).dtype == DType::i32,
                         runs,
                         launch_of(c).fault};
  const auto bits = reinterpret_cast<uintptr_t>(copies.from) | reinterpret_cast<uintptr_t>(copies.to) |
                    static_cast<uintptr_t>(runs.bytes);
  const auto start = [&](auto kernel) {
    start_with_pdl(c, kernel, static_cast<unsigned>(blocks), kThreads, 0, copies);
  };
  if (bits % 16 == 0) return start(runs_kernel<uint4>);
  if (bits % 4 == 0) return start(runs_kernel<uint32_t>);
  start(runs_kernel<unsigned char>);
}

}  // namespace genesis::cuda
