// Reductions over any axes on a GPU: text for NVRTC, after fused_kit.h. reduce_source.cpp writes the constants of
// these kernels (types, sizes, threads) in front of it and chooses between rows, whose elements are contiguous, and
// columns, whose elements lie a row apart.
//
// The kernels are fast because every thread has four packs of 16 bytes in flight before it uses the first (up to
// eight in columns), and because long reductions with few results are split into pieces: the block that finishes last
// joins them. The order of joining depends on the sizes alone, so results have the same bits in every run.

namespace genesis_device {

// --- accumulators: the state of a reduction. other(offset) returns the accumulator of another lane of the warp.

template <class L>
struct SumSoFar {
  L sum;
  static SumSoFar none() { return {L(0)}; }
  template <class X>
  void add(X x, int64) {
    sum = sum + to<L>(x);
  }
  void join(const SumSoFar& b) { sum = sum + b.sum; }
  SumSoFar other(int offset) const { return {from_lane(sum, offset)}; }
  L result() const { return sum; }
};

template <class L>
struct MeanSoFar : SumSoFar<L> {
  static MeanSoFar none() { return {{L(0)}}; }
  MeanSoFar other(int offset) const { return {{from_lane(this->sum, offset)}}; }
  L result() const { return this->sum / static_cast<L>(kCount); }
};

template <class L>
struct ProductSoFar {
  L product;
  static ProductSoFar none() { return {L(1)}; }
  template <class X>
  void add(X x, int64) {
    product = product * to<L>(x);
  }
  void join(const ProductSoFar& b) { product = product * b.product; }
  ProductSoFar other(int offset) const { return {from_lane(product, offset)}; }
  L result() const { return product; }
};

template <class Op, class L>
struct ExtremeSoFar {
  L best;
  static ExtremeSoFar none() { return {Op::identity()}; }
  void add(L x, int64) { best = Op::join(x, best); }
  void join(const ExtremeSoFar& b) { best = Op::join(b.best, best); }
  ExtremeSoFar other(int offset) const { return {from_lane(best, offset)}; }
  L result() const { return best; }
};

struct AnySoFar {
  bool any;
  static AnySoFar none() { return {false}; }
  template <class X>
  void add(X x, int64) {
    any = any || to<bool>(x);
  }
  void join(const AnySoFar& b) { any = any || b.any; }
  AnySoFar other(int offset) const { return {from_lane(any, offset)}; }
  bool result() const { return any; }
};

struct AllSoFar {
  bool all;
  static AllSoFar none() { return {true}; }
  template <class X>
  void add(X x, int64) {
    all = all && to<bool>(x);
  }
  void join(const AllSoFar& b) { all = all && b.all; }
  AllSoFar other(int offset) const { return {from_lane(all, offset)}; }
  bool result() const { return all; }
};

// The index of the first greatest (or least) element; NaN comes before everything.
template <bool kMax, class L>
struct PlaceSoFar {
  L value;
  int64 place;  // -1: no element yet

  static PlaceSoFar none() { return {L(0), -1}; }
  static bool beats(L a, L b) {
    if (b != b) return false;
    return a != a || (kMax ? a > b : a < b);
  }
  void add(L x, int64 at) {
    if (place < 0 || beats(x, value)) value = x, place = at;
  }
  void join(const PlaceSoFar& b) {
    if (b.place < 0) return;
    if (place < 0 || beats(b.value, value) || (!beats(value, b.value) && b.place < place)) *this = b;
  }
  PlaceSoFar other(int offset) const {
    return {from_lane(value, offset), int64(__shfl_xor_sync(0xffffffffu, place, offset))};
  }
  Integer result() const { return Integer(place); }
};

// Mean and sum of squared deviations, joined by the formulas of Chan, Golub and LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979.
template <bool kRoot, class L>
struct MomentsSoFar {
  L mean, squares;
  int64 n;

  static MomentsSoFar none() { return {L(0), L(0), 0}; }
  void merge(L more_mean, L more_squares, int64 more) {
    const L delta = more_mean - mean, share = static_cast<L>(more) / static_cast<L>(n + more);
    mean = mean + delta * share;
    squares = squares + more_squares + delta * delta * share * static_cast<L>(n);
    n += more;
  }
  void add(L x, int64) { merge(x, L(0), 1); }
  template <int N>
  void add_pack(const L (&x)[N], int64) {
    L sum = L(0), around = L(0);
#pragma unroll
    for (int j = 0; j < N; ++j) sum = sum + x[j];
    const L center = sum * (L(1) / L(N));
#pragma unroll
    for (int j = 0; j < N; ++j) around = around + (x[j] - center) * (x[j] - center);
    merge(center, around, N);
  }
  void join(const MomentsSoFar& b) {
    if (b.n > 0) merge(b.mean, b.squares, b.n);
  }
  MomentsSoFar other(int offset) const {
    return {from_lane(mean, offset), from_lane(squares, offset),
            int64(__shfl_xor_sync(0xffffffffu, n, offset))};
  }
  L result() const {
    const L variance = squares / static_cast<L>(kDivisor);
    return kRoot ? sqrt(variance) : variance;
  }
};

// The greatest element, and the sum of exp(x - greatest).
template <class L>
struct LogSumExpSoFar {
  L greatest, sum;

  static LogSumExpSoFar none() { return {Limits<L>::low(), L(0)}; }
  static L shift_of(L x) { return x - x == L(0) ? x : L(0); }  // an infinity or NaN is itself the result
  void rise(L to_greatest) {
    sum = sum * exp(greatest - shift_of(to_greatest));
    greatest = to_greatest;
  }
  void add(L x, int64) {
    rise(Max<L>::join(x, greatest));
    sum = sum + exp(x - shift_of(greatest));
  }
  template <int N>
  void add_pack(const L (&x)[N], int64) {
    L best = greatest;
#pragma unroll
    for (int j = 0; j < N; ++j) best = Max<L>::join(x[j], best);
    rise(best);
#pragma unroll
    for (int j = 0; j < N; ++j) sum = sum + exp(x[j] - shift_of(best));
  }
  void join(const LogSumExpSoFar& b) {
    const L best = Max<L>::join(b.greatest, greatest);
    rise(best);
    sum = sum + b.sum * exp(b.greatest - shift_of(best));
  }
  LogSumExpSoFar other(int offset) const { return {from_lane(greatest, offset), from_lane(sum, offset)}; }
  L result() const { return greatest - greatest == L(0) ? greatest + log(sum) : greatest; }
};

// Adds a whole pack, by the accumulator's add_pack() if it has one.
template <class A, class L, int N>
inline auto add_all(A& so_far, const L (&x)[N], int64 at) -> decltype(so_far.add_pack(x, at)) {
  so_far.add_pack(x, at);
}
template <class A, class L, int N, class... None>
inline void add_all(A& so_far, const L (&x)[N], int64 at, None...) {
#pragma unroll
  for (int j = 0; j < N; ++j) so_far.add(x[j], at + j);
}

template <class A, int N>
inline void add_elements(A& so_far, const Pack<In, N>& pack, int64 at) {
  decltype(lane(In())) x[N];
#pragma unroll
  for (int j = 0; j < N; ++j) x[j] = lane(pack.at[j]);
  add_all(so_far, x, at);
}

// --- joining threads and blocks

template <int kLanes, class A>
inline void join_lanes(A& so_far) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) so_far.join(so_far.other(offset));
}

// Joins the threads of a row; its first thread gets the result.
template <int kLanes, class A>
inline void join_row(A& so_far) {
  if (kLanes <= 32) return join_lanes<(kLanes < 32 ? kLanes : 32)>(so_far);
  constexpr int kWarps = kLanes <= 32 ? 1 : kLanes / 32;
  __shared__ A warps[kWarps];
  join_lanes<32>(so_far);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = so_far;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  so_far = warps[threadIdx.x % kWarps];
  join_lanes<kWarps>(so_far);
}

// Returns whether this block is the last of `pieces` blocks to call this; the last one sees what all of them wrote.
// The counter wraps to 0 after the last block. The one atomic has acquire and release order: separate fences before
// and after it would double its cost.
inline bool is_last(unsigned* counter, unsigned pieces) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(pieces - 1)
                 : "memory");
    last = before == pieces - 1;
  }
  __syncthreads();
  return last;
}

struct Buffers {
  const void* x;
  void* y;
  void* partial;
  unsigned* counters;
};

template <class A>
inline void write(const Buffers& b, int64 at, const A& so_far) {
  const decltype(so_far.result()) value[1] = {so_far.result()};
  put(static_cast<Out*>(b.y) + at, value);
}

// --- rows: kLanes threads share a row, or a piece of one

template <int V, class A>
inline void add_row(A& so_far, const In* from, int64 begin, int64 end, int me) {
  constexpr int kFlight = 4, kStep = kLanes * V;
  int64 i = begin + me * V;
  for (; i + (kFlight - 1) * kStep < end; i += kFlight * kStep) {
    Pack<In, V> packs[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u) fetch(packs[u], from + along(i + u * kStep));
#pragma unroll
    for (int u = 0; u < kFlight; ++u) add_elements(so_far, packs[u], i + u * kStep);
  }
  for (; i < end; i += kStep) {
    Pack<In, V> pack;
    fetch(pack, from + along(i));
    add_elements(so_far, pack, i);
  }
}

template <class A, int V>
inline void reduce_rows(const Buffers& b, int64 outer) {
  const int me = threadIdx.x % kLanes;
  const int64 number = int64(blockIdx.x / kPieces) * (kThreads / kLanes) + threadIdx.x / kLanes;
  const bool live = number < outer;  // a row past the last one repeats it, so that all lanes take part
  const int64 row = live ? number : outer - 1, begin = int64(blockIdx.x % kPieces) * kPiece;
  A so_far = A::none();
  add_row<V>(so_far, static_cast<const In*>(b.x) + kept(row), begin,
             begin + kPiece < kCount ? begin + kPiece : kCount, me);
  join_row<kLanes>(so_far);
  if (kPieces == 1) {
    if (live && me == 0) write(b, row, so_far);
    return;
  }
  A* partial = static_cast<A*>(b.partial) + row * kPieces;
  if (me == 0) partial[blockIdx.x % kPieces] = so_far;
  if (!is_last(b.counters + row, kPieces)) return;
  so_far = A::none();
  for (int i = me; i < kPieces; i += kLanes) so_far.join(partial[i]);
  join_row<kLanes>(so_far);
  if (me == 0) write(b, row, so_far);
}

// --- columns: kLanes threads side by side have V columns each; kThreads / kLanes of them share a column

constexpr int kDown = kThreads / kLanes;

// Loads in flight at once; large accumulators leave no registers for more.
template <class A>
constexpr int kColumnFlight = sizeof(A) <= 8 ? 8 : 4;

// Joins the threads of each column; those of row 0 get the result. In each round, a few rows of threads join all the
// others, until one row is left.
template <int V, class A>
inline void join_down(A (&so_far)[V], int across, int down) {
  constexpr int kFold = sizeof(A) <= 8 ? 4 : 2;  // shared memory has no space for more
  constexpr int kLeft = kDown > kFold ? kDown / kFold : 1, kOthers = kDown > 1 ? kDown - kLeft : 1;
  __shared__ A all[V * kOthers * kLanes];
  for (int height = kDown, left; height > 1; height = left) {
    left = height > kFold ? height / kFold : 1;
    __syncthreads();
    if (down >= left && down < height)
#pragma unroll
      for (int j = 0; j < V; ++j) all[(j * kOthers + down - left) * kLanes + across] = so_far[j];
    __syncthreads();
    if (down < left)
      for (int other = down; other + left < height; other += left)
#pragma unroll
        for (int j = 0; j < V; ++j) so_far[j].join(all[(j * kOthers + other) * kLanes + across]);
  }
}

template <int V, class A>
inline void add_columns(A (&so_far)[V], const In* from, int64 begin, int64 end, int down) {
  constexpr int kFlight = kColumnFlight<A>;
  for (int64 i = begin + down; i < end; i += kFlight * kDown) {
    Pack<In, V> packs[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (i + u * kDown < end) fetch(packs[u], from + along(i + u * kDown));
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (i + u * kDown < end)
#pragma unroll
        for (int j = 0; j < V; ++j) so_far[j].add(lane(packs[u].at[j]), i + u * kDown);
  }
}

// Accumulators of one thread's columns, as they are stored in the partial results of a piece.
template <class A, int V>
struct alignas(sizeof(A) * V % 16 == 0 ? 16 : alignof(A)) SideBySide {
  A at[V];
};

template <int V, class A>
inline void join_pieces(A (&so_far)[V], const A* partial, int down) {
  constexpr int kFlight = sizeof(A) <= 8 ? 8 : 1;
  for (int i = down; i < kPieces; i += kFlight * kDown) {
    SideBySide<A, V> pieces[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (i + u * kDown < kPieces)
        pieces[u] = *reinterpret_cast<const SideBySide<A, V>*>(partial + (i + u * kDown) * kInner);
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (i + u * kDown < kPieces)
#pragma unroll
        for (int j = 0; j < V; ++j) so_far[j].join(pieces[u].at[j]);
  }
}

template <class A, int V>
inline void reduce_columns(const Buffers& b) {
  constexpr int64 kTiles = (kInner + kLanes * V - 1) / (kLanes * V);
  const int across = threadIdx.x % kLanes, down = threadIdx.x / kLanes;
  const int64 tile = blockIdx.x % kTiles, piece = blockIdx.x / kTiles % kPieces,
              outer = blockIdx.x / kTiles / kPieces;
  const int64 column = (tile * kLanes + across) * V, begin = piece * kPiece;
  const bool live = column < kInner;
  A so_far[V];
#pragma unroll
  for (int j = 0; j < V; ++j) so_far[j] = A::none();
  if (live)
    add_columns<V>(so_far, static_cast<const In*>(b.x) + kept(outer) + column, begin,
                   begin + kPiece < kCount ? begin + kPiece : kCount, down);
  join_down<V>(so_far, across, down);
  if (kPieces > 1) {
    A* partial = static_cast<A*>(b.partial) + outer * kPieces * kInner + column;
    if (live && down == 0) {
      SideBySide<A, V> mine;
#pragma unroll
      for (int j = 0; j < V; ++j) mine.at[j] = so_far[j];
      *reinterpret_cast<SideBySide<A, V>*>(partial + piece * kInner) = mine;
    }
    if (!is_last(b.counters + outer * kTiles + tile, kPieces)) return;
#pragma unroll
    for (int j = 0; j < V; ++j) so_far[j] = A::none();
    if (live) join_pieces<V>(so_far, partial, down);
    join_down<V>(so_far, across, down);
  }
  if (live && down == 0)
#pragma unroll
    for (int j = 0; j < V; ++j) write(b, outer * kInner + column + j, so_far[j]);
}

}  // namespace genesis_device
