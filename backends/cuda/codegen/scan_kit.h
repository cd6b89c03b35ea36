// Running sums on a GPU: text for NVRTC, after fused_kit.h, with the sizes as constants in front (scan_source.cpp).
// Floats are summed in f64, integers in i64, as on the CPU; the order depends on the sizes alone. A long row is split
// into pieces: the kernel `totals` sums each of them, then every block of `scan` starts from the sum of the pieces
// before its own.

namespace genesis_device {

struct Buffers {
  const void* x;
  void* y;
  void* totals;
};

inline double from_below(double x, int offset) { return __shfl_up_sync(0xffffffffu, x, offset); }
inline Integer from_below(Integer x, int offset) {
  return Integer(int64(__shfl_up_sync(0xffffffffu, x.v, offset)));
}
inline double from_last(double x) { return __shfl_sync(0xffffffffu, x, 31); }
inline Integer from_last(Integer x) { return Integer(int64(__shfl_sync(0xffffffffu, x.v, 31))); }

// The sum over the lanes before this one, and the sum over all lanes.
struct Before {
  Total before, all;
};
inline Before scan_warp(Total x) {
  const int lane_number = threadIdx.x % 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Total below = from_below(x, offset);
    if (lane_number >= offset) x = below + x;
  }
  const Total below = from_below(x, 1);
  return {lane_number == 0 ? Total(0) : below, from_last(x)};
}

// Scans over the kLanes threads of a row. `parity` alternates between two buffers in shared memory, so that one
// barrier is enough.
inline Before scan_row(Total x, int parity) {
  Before warp = scan_warp(x);
  if (kLanes == 32) return warp;
  __shared__ Total totals[2][kLanes / 32];
  if (threadIdx.x % 32 == 31) totals[parity][threadIdx.x / 32] = warp.all;
  __syncthreads();
  Total before = Total(0), all = Total(0);
  for (int w = 0; w < kLanes / 32; ++w) {
    if (w == threadIdx.x / 32) before = all;
    all = all + totals[parity][w];
  }
  return {before + warp.before, all};
}

inline int64 place(int64 i) { return kReverse ? kCount - 1 - i : i; }

struct RowPiece {
  int64 row, begin, end;
  int me;
  bool live;
};
inline RowPiece row_piece(int64 rows) {
  const int64 number = int64(blockIdx.x / kPieces) * (kThreads / kLanes) + threadIdx.x / kLanes;
  const int64 begin = int64(blockIdx.x % kPieces) * kPiece, end = begin + kPiece;
  return {number < rows ? number : rows - 1, begin, end < kCount ? end : kCount, int(threadIdx.x % kLanes),
          number < rows};
}

inline void sum_pieces(const Buffers& b, int64 rows) {
  const RowPiece piece = row_piece(rows);
  const In* from = static_cast<const In*>(b.x) + piece.row * kCount;
  Total sum = Total(0);
#pragma unroll 4
  for (int64 i = piece.begin + piece.me; i < piece.end; i += kLanes)
    sum = sum + to<Total>(lane(from[place(i)]));
  const Total all = scan_row(sum, 0).all;
  if (piece.me == 0) static_cast<Total*>(b.totals)[blockIdx.x] = all;
}

inline Total sum_before(const Buffers& b, const RowPiece& piece) {
  const Total* totals = static_cast<const Total*>(b.totals) + piece.row * kPieces;
  Total sum = Total(0);
  for (int i = piece.me; i < int(blockIdx.x % kPieces); i += kLanes) sum = sum + totals[i];
  return scan_row(sum, 0).all;
}

inline void put_sum(Out* y, Total sum) {
  const Lane value[1] = {to<Lane>(sum)};
  put(y, value);
}

inline void scan_rows(const Buffers& b, int64 rows) {
  constexpr int kEach = 4;
  const RowPiece piece = row_piece(rows);
  const In* from = static_cast<const In*>(b.x) + piece.row * kCount;
  Out* y = static_cast<Out*>(b.y) + piece.row * kCount;
  Total carry = kPieces > 1 ? sum_before(b, piece) : Total(0);
  int parity = 1;
  for (int64 tile = piece.begin; tile < piece.end; tile += kLanes * kEach) {
    const int64 first = tile + piece.me * kEach;
    Total sums[kEach], total = Total(0);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      if (first + e < piece.end) total = total + to<Total>(lane(from[place(first + e)]));
      sums[e] = total;
    }
    const Before others = scan_row(total, parity);
    parity = 1 - parity;
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      if (piece.live && first + e < piece.end) put_sum(y + place(first + e), carry + others.before + sums[e]);
    carry = carry + others.all;
  }
}

// One thread per column: neighboring threads read neighboring elements.
inline void scan_columns(const Buffers& b, int64 columns) {
  constexpr int kFlight = 8;
  const int64 number = int64(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= columns) return;
  const int64 start = number / kInner * kCount * kInner + number % kInner;
  const In* from = static_cast<const In*>(b.x) + start;
  Out* y = static_cast<Out*>(b.y) + start;
  Total sum = Total(0);
  for (int64 i = 0; i < kCount; i += kFlight) {
    In loaded[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (i + u < kCount) loaded[u] = from[place(i + u) * kInner];
#pragma unroll
    for (int u = 0; u < kFlight; ++u) {
      if (i + u >= kCount) continue;
      sum = sum + to<Total>(lane(loaded[u]));
      put_sum(y + place(i + u) * kInner, sum);
    }
  }
}

}  // namespace genesis_device
