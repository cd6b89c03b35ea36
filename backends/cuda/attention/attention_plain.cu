// Attention and its gradient for every dtype, head size, layout and mask, with f32 (f64) arithmetic. A block has 8
// warps with R rows each, kept in shared memory. It passes over the other side in tiles of 32 rows, one per lane,
// split into chunks of 64 features. Scores never reach memory. Every sum has a fixed order: the gradients of keys and
// of queries are separate passes, without atomic additions. Kernels are compiled per arithmetic type only; the dtype
// of elements is checked where they are read and written.
#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/online_softmax.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8, kAll = kWarps * kLanes, kChunk = 64, kChunkRow = kChunk + 1;
constexpr int64_t kMaxShared = 160 * 1024;   // per block, on every chip since Ampere
constexpr int64_t kGoodShared = 100 * 1024;  // with more, fewer rows per block run faster

// Rows of one head: element (i, d) is data[first + i * step + d]. Void is const void for rows that are only read.
template <class Void>
struct Rows {
  Void* data;
  DType dtype;
  int64_t first, step;
};

template <class Void>
__device__ Rows<Void> head(const AttentionShape& s, Void* data, const HeadSteps& steps, int64_t b,
                           int64_t h) {
  return {data, s.dtype, b * steps.batch + h * steps.head, steps.row};
}

// Calls body(pointer to the first element, in its type), for rows that are computed in type W.
template <class W, class Void, class Body>
__device__ __forceinline__ void with_elements(const Rows<Void>& rows, const Body& body) {
  const auto start = [&]<class T>(T) {
    body(static_cast<std::conditional_t<std::is_const_v<Void>, const T, T>*>(rows.data) + rows.first);
  };
  if constexpr (std::is_same_v<W, double>)
    start(double{});
  else if (rows.dtype == DType::bf16)
    start(__nv_bfloat16{});
  else if (rows.dtype == DType::f16)
    start(__half{});
  else
    start(float{});
}

// The next three functions are not inlined: kernels call them up to four times, and each has code for every element
// type.

// Loads chunk[j][d] = from[first + j][c + d], with zeros outside of `end` rows and `size` features.
template <class W>
__device__ __noinline__ void load_chunk(Rows<const void> from, int64_t first, int64_t end, int64_t c,
                                        int64_t size, W* chunk) {
  constexpr int kAtOnce = kAll / kChunk;  // rows that the block loads at once
  const int d = static_cast<int>(threadIdx.x) % kChunk, j0 = static_cast<int>(threadIdx.x) / kChunk;
  W mine[kLanes / kAtOnce];
  with_elements<W>(from, [&](const auto* data) {
#pragma unroll
    for (int i = 0; i < kLanes / kAtOnce; ++i) {
      const int64_t row = first + j0 + i * kAtOnce;
      mine[i] = row < end && c + d < size ? widen(data[row * from.step + c + d]) : W(0);
    }
  });
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kLanes / kAtOnce; ++i) chunk[(j0 + i * kAtOnce) * kChunkRow + d] = mine[i];
  __syncthreads();
}

// Loads tile[r][d] = from[first + r][d] for all rows of the block.
template <class W>
__device__ __noinline__ void load_tile(Rows<const void> from, int64_t first, int64_t end, int rows,
                                       int64_t size, W* tile) {
  with_elements<W>(from, [&](const auto* data) {
    for (int64_t i = threadIdx.x; i < rows * size; i += kAll) {
      const int64_t r = i / size;
      tile[i] = first + r < end ? widen(data[(first + r) * from.step + i % size]) : W(0);
    }
  });
}

// Stores to[first + r] = row r of this warp's tile, for the rows before `end`.
template <class W>
__device__ __noinline__ void put_rows(const W* tile, int rows, int64_t size, Rows<void> to, int64_t first,
                                      int64_t end) {
  with_elements<W>(to, [&]<class T>(T* data) {
    for (int64_t r = 0; r < rows && first + r < end; ++r)
      for (int64_t d = threadIdx.x % kLanes; d < size; d += kLanes)
        data[(first + r) * to.step + d] = narrow<T>(tile[r * size + d]);
  });
}

template <class W>
__device__ void clear_tile(W* tile, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += kAll) tile[i] = W(0);
}

// Computes sums[r] = (row r of this warp's tile) . (row first + lane of the other side).
template <class W, int R>
__device__ void dots(const W* mine, int64_t size, const Rows<const void>& other, int64_t first, int64_t end,
                     W* chunk, W (&sums)[R]) {
#pragma unroll
  for (int r = 0; r < R; ++r) sums[r] = W(0);
  const W* row = chunk + threadIdx.x % kLanes * kChunkRow;
  for (int64_t c = 0; c < size; c += kChunk) {
    load_chunk(other, first, end, c, size, chunk);
    const int n = static_cast<int>(min(int64_t{kChunk}, size - c));
#pragma unroll 4
    for (int d = 0; d < n; ++d) {
      const W x = row[d];
#pragma unroll
      for (int r = 0; r < R; ++r) sums[r] += mine[r * size + c + d] * x;
    }
  }
}

// Computes mine[r] = mine[r] * keep[r] + sum over j of weights[r][j] (row first + j of the other side).
template <class W, int R>
__device__ void accumulate(W* mine, int64_t size, const W* weights, const W (&keep)[R],
                           const Rows<const void>& other, int64_t first, int64_t end, W* chunk) {
  for (int64_t c = 0; c < size; c += kChunk) {
    load_chunk(other, first, end, c, size, chunk);
    const int n = static_cast<int>(min(int64_t{kChunk}, size - c));
    for (int d = threadIdx.x % kLanes; d < n; d += kLanes) {
      W sums[R];
#pragma unroll
      for (int r = 0; r < R; ++r) sums[r] = mine[r * size + c + d] * keep[r];
#pragma unroll 4
      for (int j = 0; j < kLanes; ++j) {
        const W x = chunk[j * kChunkRow + d];
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] += weights[r * kLanes + j] * x;
      }
#pragma unroll
      for (int r = 0; r < R; ++r) mine[r * size + c + d] = sums[r];
    }
  }
}

template <class W>
__device__ W* shared_memory() {
  extern __shared__ double shared_doubles[];
  return reinterpret_cast<W*>(shared_doubles);
}

// The head and the rows of a block; the last rows, which see the most keys, come first.
struct RowTile {
  int64_t b, h, row0;
};
__device__ RowTile tile_of_block(int64_t heads, int64_t tiles, int rows) {
  const int64_t i = blockIdx.x, tile = tiles - 1 - i % tiles;
  return {i / tiles / heads, i / tiles % heads, tile * rows};
}

// Applies the mask to a score. Not inlined: kernels would have it many times in their loops.
template <class W>
__device__ __noinline__ W masked(W score, DType dtype, const void* mask, int64_t at) {
  return with_mask(score, dtype, mask, at);
}

// Returns the score of a product: scaled and masked, or -inf if the query does not see the key.
template <class W>
__device__ W score_of(const AttentionShape& s, const AttentionData& d, W product, int64_t b, int64_t h,
                      int64_t query, int64_t key, const VisibleKeys& visible) {
  if (query >= s.queries || key >= visible.end(s, query) || key < visible.begin(s, query))
    return W(-INFINITY);
  const W x = product * static_cast<W>(s.scale);
  if (!d.mask) return x;
  const int64_t* steps = s.mask_steps;
  return masked(x, s.mask_dtype, d.mask, b * steps[0] + h * steps[1] + query * steps[2] + key * steps[3]);
}

template <class W, int R>
__global__ void __launch_bounds__(kAll) forward(AttentionShape s, AttentionData data, int64_t tiles) {
  constexpr int kRows = kWarps * R;
  W *q_tile = shared_memory<W>(), *y_tile = q_tile + kRows * s.size, *chunk = y_tile + kRows * s.v_size,
    *weights = chunk + kLanes * kChunkRow;
  const auto [b, h, row0] = tile_of_block(s.heads, tiles, kRows);
  const int64_t key_head = h / (s.heads / s.key_heads);
  const VisibleKeys visible(s, data, b);
  if (h == 0) check_key_starts(s, data, visible, row0, row0 + kRows);
  const auto k = head(s, data.k, s.k, b, key_head), v = head(s, data.v, s.v, b, key_head);
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  load_tile(head(s, data.q, s.q, b, h), row0, s.queries, kRows, s.size, q_tile);
  clear_tile(y_tile, kRows * s.v_size);
  W *my_q = q_tile + warp * R * s.size, *my_y = y_tile + warp * R * s.v_size,
    *my_weights = weights + warp * R * kLanes;
  OnlineSoftmax<ShiftedExponential<W>, W> softmax[R];
  W keep[R];
  const int64_t end = visible.end(s, min(row0 + kRows, s.queries) - 1);
  for (int64_t j0 = visible.begin(s, row0) / kLanes * kLanes; j0 < end; j0 += kLanes) {
    W scores[R];
    dots(my_q, s.size, k, j0, visible.count, chunk, scores);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t i = row0 + warp * R + r;
      const W x = score_of(s, data, scores[r], b, h, i, j0 + lane, visible);
      keep[r] = softmax[r].rescale(MaxOrNan{}(softmax[r].max, reduce_lanes(x, kLanes, MaxOrNan{})));
      const W p = softmax[r].power()(x);
      softmax[r].sum += warp_sum(p);
      my_weights[r * kLanes + lane] = p;
    }
    accumulate(my_y, s.v_size, my_weights, keep, v, j0, visible.count, chunk);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int64_t i = row0 + warp * R + r;
    if (i >= s.queries) continue;
    const W max = softmax[r].max, sum = softmax[r].sum;
    const bool blind = max == W(-INFINITY);
    for (int64_t d = lane; d < s.v_size; d += kLanes)
      my_y[r * s.v_size + d] = blind ? W(0) : my_y[r * s.v_size + d] / sum;
    if (data.lse && lane == 0)
      static_cast<W*>(data.lse)[(b * s.heads + h) * s.queries + i] = blind ? max : max + log(sum);
  }
  put_rows(my_y, R, s.v_size, head(s, data.y, s.y, b, h), row0 + warp * R, s.queries);
}

// Computes delta = dy . y of each query, which softmax's gradient subtracts.
template <class T>
__global__ void __launch_bounds__(kAll) row_products(AttentionShape s, AttentionData data, wide_t<T>* delta) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  if (row >= s.batch * s.heads * s.queries) return;
  const int64_t i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads;
  const int64_t at = b * s.y.batch + h * s.y.head + i * s.y.row;
  const T *y = static_cast<const T*>(data.y) + at, *dy = static_cast<const T*>(data.dy) + at;
  wide_t<T> sum = 0;
  for (int64_t d = threadIdx.x % kLanes; d < s.v_size; d += kLanes) sum += widen(dy[d]) * widen(y[d]);
  sum = warp_sum(sum);
  if (threadIdx.x % kLanes == 0) delta[row] = sum;
}

// The softmax weight of one query and key, and the gradient of their score (times scale).
template <class W>
struct Slope {
  W p, ds;
};
template <class W>
__device__ Slope<W> slope_of(const AttentionShape& s, W score, W lse, W dp, W delta) {
  const W p = lse == W(-INFINITY) ? W(0) : exp(score - lse);
  return {p, p == W(0) ? W(0) : p * (dp - delta) * static_cast<W>(s.scale)};
}

template <class W, int R>
__global__ void __launch_bounds__(kAll)
    query_gradient(AttentionShape s, AttentionData data, const W* delta, int64_t tiles) {
  constexpr int kRows = kWarps * R;
  W *q_tile = shared_memory<W>(), *dq_tile = q_tile + kRows * s.size, *dy_tile = dq_tile + kRows * s.size,
    *chunk = dy_tile + kRows * s.v_size, *weights = chunk + kLanes * kChunkRow;
  const auto [b, h, row0] = tile_of_block(s.heads, tiles, kRows);
  const int64_t key_head = h / (s.heads / s.key_heads);
  const VisibleKeys visible(s, data, b);
  const auto k = head(s, data.k, s.k, b, key_head), v = head(s, data.v, s.v, b, key_head);
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  load_tile(head(s, data.q, s.q, b, h), row0, s.queries, kRows, s.size, q_tile);
  load_tile(head(s, data.dy, s.y, b, h), row0, s.queries, kRows, s.v_size, dy_tile);
  clear_tile(dq_tile, kRows * s.size);
  W *my_dq = dq_tile + warp * R * s.size, *my_weights = weights + warp * R * kLanes;
  const int64_t end = visible.end(s, min(row0 + kRows, s.queries) - 1);
  const int64_t statistics = (b * s.heads + h) * s.queries;
  W keep[R];
#pragma unroll
  for (int r = 0; r < R; ++r) keep[r] = W(1);
  for (int64_t j0 = visible.begin(s, row0) / kLanes * kLanes; j0 < end; j0 += kLanes) {
    W scores[R], dp[R];
    dots(q_tile + warp * R * s.size, s.size, k, j0, visible.count, chunk, scores);
    dots(dy_tile + warp * R * s.v_size, s.v_size, v, j0, visible.count, chunk, dp);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t i = min(row0 + warp * R + r, s.queries - 1);
      const W score = score_of(s, data, scores[r], b, h, i, j0 + lane, visible);
      const W lse = static_cast<const W*>(data.lse)[statistics + i];
      my_weights[r * kLanes + lane] = slope_of(s, score, lse, dp[r], delta[statistics + i]).ds;
    }
    accumulate(my_dq, s.size, my_weights, keep, k, j0, visible.count, chunk);
  }
  __syncthreads();
  put_rows(my_dq, R, s.size, head(s, data.dq, s.q, b, h), row0 + warp * R, s.queries);
}

template <class W, int R>
__global__ void __launch_bounds__(kAll)
    key_gradient(AttentionShape s, AttentionData data, const W* delta, int64_t tiles) {
  constexpr int kRows = kWarps * R;
  W *k_tile = shared_memory<W>(), *dk_tile = k_tile + kRows * s.size, *v_tile = dk_tile + kRows * s.size,
    *dv_tile = v_tile + kRows * s.v_size, *chunk = dv_tile + kRows * s.v_size,
    *p_weights = chunk + kLanes * kChunkRow, *ds_weights = p_weights + kRows * kLanes;
  const auto [b, key_head, row0] = tile_of_block(s.key_heads, tiles, kRows);
  const VisibleKeys visible(s, data, b);
  const int64_t count = visible.count, group = s.heads / s.key_heads;
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  load_tile(head(s, data.k, s.k, b, key_head), row0, count, kRows, s.size, k_tile);
  load_tile(head(s, data.v, s.v, b, key_head), row0, count, kRows, s.v_size, v_tile);
  clear_tile(dk_tile, kRows * s.size);
  clear_tile(dv_tile, kRows * s.v_size);
  W *my_dk = dk_tile + warp * R * s.size, *my_dv = dv_tile + warp * R * s.v_size;
  W *my_p = p_weights + warp * R * kLanes, *my_ds = ds_weights + warp * R * kLanes;
  W keep[R];
#pragma unroll
  for (int r = 0; r < R; ++r) keep[r] = W(1);
  for (int64_t h = key_head * group; row0 < count && h < (key_head + 1) * group; ++h) {
    const auto q = head(s, data.q, s.q, b, h), dy = head(s, data.dy, s.y, b, h);
    const int64_t statistics = (b * s.heads + h) * s.queries;
    const int64_t past = visible.past(s, min(row0 + kRows, count) - 1);
    for (int64_t i0 = visible.first(s, row0) / kLanes * kLanes; i0 < past; i0 += kLanes) {
      W scores[R], dp[R];
      dots(k_tile + warp * R * s.size, s.size, q, i0, s.queries, chunk, scores);
      dots(v_tile + warp * R * s.v_size, s.v_size, dy, i0, s.queries, chunk, dp);
      const int64_t i = i0 + lane, row = statistics + min(i, s.queries - 1);
      const W lse = i < s.queries ? static_cast<const W*>(data.lse)[row] : W(-INFINITY);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const W score = score_of(s, data, scores[r], b, h, i, row0 + warp * R + r, visible);
        const Slope<W> slope = slope_of(s, score, lse, dp[r], delta[row]);
        my_p[r * kLanes + lane] = slope.p;
        my_ds[r * kLanes + lane] = slope.ds;
      }
      accumulate(my_dv, s.v_size, my_p, keep, dy, i0, s.queries, chunk);
      accumulate(my_dk, s.size, my_ds, keep, q, i0, s.queries, chunk);
    }
  }
  __syncthreads();
  put_rows(my_dk, R, s.size, head(s, data.dk, s.k, b, key_head), row0 + warp * R, s.keys);
  put_rows(my_dv, R, s.v_size, head(s, data.dv, s.v, b, key_head), row0 + warp * R, s.keys);
}

// Returns the bytes of shared memory for `sizes` features per row and `weights` tiles of weights.
int64_t shared_bytes(const AttentionShape& s, int rows, int64_t sizes, int weights) {
  const int64_t element = s.dtype == DType::f64 ? 8 : 4;
  return element * (rows * sizes + kLanes * kChunkRow + int64_t{weights} * rows * kLanes);
}

template <class Kernel, class... Arguments>
void start_blocks(Kernel kernel, int64_t blocks, int64_t shared, cudaStream_t stream,
                  const Arguments&... arguments) {
  if (blocks == 0) return;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  kernel<<<static_cast<unsigned>(blocks), kAll, static_cast<size_t>(shared), stream>>>(arguments...);
}

int64_t blocks_of(int64_t rows, int per_block) { return (rows + per_block - 1) / per_block; }

template <class W, int R>
void start_forward(const AttentionShape& s, const AttentionData& d) {
  const int64_t tiles = blocks_of(s.queries, kWarps * R);
  start_blocks(forward<W, R>, s.batch * s.heads * tiles, shared_bytes(s, kWarps * R, s.size + s.v_size, 1),
               d.stream, s, d, tiles);
}

template <class W, int R>
void start_query_gradient(const AttentionShape& s, const AttentionData& d, const W* delta) {
  const int64_t tiles = blocks_of(s.queries, kWarps * R);
  start_blocks(query_gradient<W, R>, s.batch * s.heads * tiles,
               shared_bytes(s, kWarps * R, 2 * s.size + s.v_size, 1), d.stream, s, d, delta, tiles);
}

int64_t key_gradient_shared(const AttentionShape& s, int rows) {
  return shared_bytes(s, rows, 2 * (s.size + s.v_size), 2);
}

template <class W, int R>
void start_key_gradient(const AttentionShape& s, const AttentionData& d, const W* delta) {
  const int64_t tiles = blocks_of(s.keys, kWarps * R);
  start_blocks(key_gradient<W, R>, s.batch * s.key_heads * tiles, key_gradient_shared(s, kWarps * R),
               d.stream, s, d, delta, tiles);
}

template <class T>
void start_row_products(const AttentionShape& s, const AttentionData& d) {
  start_blocks(row_products<T>, blocks_of(s.rows(), kWarps), 0, d.stream, s, d,
               reinterpret_cast<wide_t<T>*>(d.scratch));
}

template <class W, int R>
void start_gradient(const AttentionShape& s, const AttentionData& d) {
  const auto* delta = reinterpret_cast<const W*>(d.scratch);
  start_query_gradient<W, R>(s, d, delta);
  start_key_gradient<W, R>(s, d, delta);
}

}  // namespace

std::optional<std::string> plain_attention_declines(const AttentionShape& s) {
  if (key_gradient_shared(s, kWarps) > kMaxShared) return "the head size is too large for the shared memory";
  return std::nullopt;
}

void run_plain_attention(const AttentionShape& s, const AttentionData& d) {
  if (s.dtype == DType::f64)
    return start_forward<double, 1>(s, d);  // rare, and several rows take long to compile
  if (shared_bytes(s, kWarps * 8, s.size + s.v_size, 1) <= kGoodShared) return start_forward<float, 8>(s, d);
  start_forward<float, 1>(s, d);
}

int64_t plain_gradient_scratch(const AttentionShape& s) {
  return (CheckedSize(s.rows()) * (s.dtype == DType::f64 ? 8 : 4)).value();
}

void write_row_products(const AttentionShape& s, const AttentionData& d) {
  dispatch_float(s.dtype, [&](auto tag) { start_row_products<typename decltype(tag)::type>(s, d); });
}

void run_plain_gradient(const AttentionShape& s, const AttentionData& d) {
  write_row_products(s, d);
  if (s.dtype == DType::f64) return start_gradient<double, 1>(s, d);
  if (key_gradient_shared(s, kWarps * 4) <= kGoodShared) return start_gradient<float, 4>(s, d);
  start_gradient<float, 1>(s, d);
}

}  // namespace genesis::cuda
