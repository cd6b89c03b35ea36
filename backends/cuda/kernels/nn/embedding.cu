// embedding and its gradient. The gradient marks the rows of the table that have tokens, then writes every row once:
// most are zeros, a row with one token is a copy, and the others are summed in the order of the tokens, so that
// results are the same in every run. It needs only integer atomics, whose results do not depend on their order.
#include "backends/cuda/device/packs.h"
#include "schema/core/checked_size.h"
#include "schema/ops/tensor/index.h"

namespace genesis::cuda {
namespace {

// --- forward: a block copies some rows

template <class I, class P>
__global__ void embedding_kernel(const I* indices, int64_t n, OwnIndices own, const P* weight, int64_t packs,
                                 P* y, FaultReport fault) {
  begin_in_order();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    const int64_t named = indices[i], row = own.place_of(named);
    if (!own.exists(named) && threadIdx.x == 0) fault(named, own.all);
    for (int64_t k = threadIdx.x; k < packs; k += blockDim.x)
      y[i * packs + k] = row >= 0 ? weight[row * packs + k] : P{};
  }
}

void run_embedding(const KernelContext& c) {
  const TensorView &indices = c.input(0), &weight = c.input(1);
  const int64_t n = indices.numel(), columns = weight.dim(1);
  const OwnIndices own = c.attributes<ops::Embedding>().part.of(weight.dim(0));
  if (c.output().numel() == 0) return;
  dispatch_index(indices.dtype, [&](auto index_tag) {
    using I = typename decltype(index_tag)::type;
    dispatch_size(weight.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto launch = [&](auto size) {
        using P = Pack<T, size()>;
        const int64_t packs = columns / size();
        unsigned across = 32;
        while (across < kThreads && across < packs) across *= 2;
        const dim3 threads(across, kThreads / across);
        const int64_t blocks = std::min<int64_t>(blocks_for(n, threads.y), int64_t{1} << 30);
        start_with_pdl(launch_of(c), embedding_kernel<I, P>, static_cast<unsigned>(blocks), threads, 0,
                       indices.as<const I>(), n, own, weight.as<const P>(), packs, c.output().as<P>(),
                       launch_of(c).fault);
      };
      constexpr int kWidest = 16 / sizeof(T);
      if (columns % kWidest == 0 && aligned_to_packs(weight, c.output()))
        launch(std::integral_constant<int, kWidest>{});
      else
        launch(std::integral_constant<int, 1>{});
    });
  });
}

// --- backward

// The marks in scratch memory. Row r of the table has count[r] tokens, the first of which is token n - last[r].
struct Marks {
  int32_t* count;   // [rows]
  int32_t* last;    // [rows]
  int32_t* row_of;  // [n]: each token's row, or -1 if the token does not count

  static int64_t bytes(int64_t rows, int64_t n) { return ((2 * CheckedSize(rows) + n) * 4).value(); }
  static Marks in(std::byte* scratch, int64_t rows) {
    auto* at = reinterpret_cast<int32_t*>(scratch);
    return {at, at + rows, at + 2 * rows};
  }
};

template <class I>
__global__ void mark_kernel(const I* indices, int32_t n, OwnIndices own, int64_t padding, Marks marks,
                            FaultReport fault) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64_t named = indices[i], row = own.place_of(named);
  const bool counts = row >= 0 && named != padding;
  if (!own.exists(named)) fault(named, own.all);
  marks.row_of[i] = counts ? static_cast<int32_t>(row) : -1;
  if (!counts) return;
  atomicAdd(&marks.count[row], 1);
  atomicMax(&marks.last[row], n - static_cast<int32_t>(i));
}

constexpr int kWarps = kThreads / 32;
constexpr int kQueue = 8;  // tokens whose dy a warp loads at once

// One warp's sum of 32 packs of a row of the table.
template <class T, int N>
struct RowSum {
  using P = Pack<T, N>;
  const P* dy;     // this lane's pack of token 0
  int64_t stride;  // packs per row
  bool inside;
  wide_t<T> sums[N] = {};

  // Adds the tokens in order; all loads are in flight before the first addition.
  __device__ void add(const int32_t* tokens, int count) {
    P values[kQueue];
#pragma unroll
    for (int q = 0; q < kQueue; ++q)
      if (q < count && inside) values[q] = dy[tokens[q] * stride];
#pragma unroll
    for (int q = 0; q < kQueue; ++q)
      if (q < count && inside)
#pragma unroll
        for (int j = 0; j < N; ++j) sums[j] += widen(values[q].at[j]);
  }
};

// Finds the row's `count` tokens from `first` on, in order, and adds them.
template <class T, int N>
__device__ void add_tokens(RowSum<T, N>& sum, const int32_t* row_of, int32_t n, int32_t row, int32_t first,
                           int32_t count, int32_t* queue) {
  constexpr int kScan = 8;  // tokens that a lane checks per step
  const int lane = threadIdx.x % 32;
  int queued = 0;
  for (int64_t base = first; base < n && count > 0; base += 32 * kScan) {
    int32_t seen[kScan];
#pragma unroll
    for (int k = 0; k < kScan; ++k) {
      const int64_t at = base + k * 32 + lane;
      seen[k] = at < n ? row_of[at] : -1;
    }
#pragma unroll
    for (int k = 0; k < kScan; ++k) {
      for (unsigned found = __ballot_sync(~0u, seen[k] == row); found != 0; found &= found - 1) {
        queue[queued++] = static_cast<int32_t>(base + k * 32 + __ffs(found) - 1);  // the same in every lane
        --count;
        if (queued < kQueue) continue;
        __syncwarp();
        sum.add(queue, kQueue);
        __syncwarp();
        queued = 0;
      }
    }
  }
  __syncwarp();
  sum.add(queue, queued);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(Marks marks, int32_t n, int64_t rows, const Pack<T, N>* dy, int64_t packs, int64_t chunks,
                    Pack<T, N>* dweight) {
  __shared__ int32_t queues[kWarps][kQueue];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t task = static_cast<int64_t>(blockIdx.x) * kWarps + warp; task < rows * chunks; task += step) {
    const int64_t row = task / chunks, column = task % chunks * 32 + lane;
    const bool inside = column < packs;
    const int32_t count = marks.count[row];
    Pack<T, N>* to = dweight + row * packs + column;
    if (count == 0) {
      if (inside) *to = Pack<T, N>{};
      continue;
    }
    const int32_t first = n - marks.last[row];
    if (count == 1) {
      if (inside) *to = dy[first * packs + column];
      continue;
    }
    RowSum<T, N> sum{dy + column, packs, inside};
    add_tokens(sum, marks.row_of, n, static_cast<int32_t>(row), first, count, queues[warp]);
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = narrow<T>(sum.sums[j]);
    if (inside) *to = out;
    __syncwarp();  // until the queue may be overwritten
  }
}

template <class T, int N>
void start_gradient(const KernelContext& c, const Marks& marks, int32_t n) {
  const int64_t rows = c.output().dim(0), packs = c.output().dim(1) / N, chunks = blocks_for(packs, 32);
  const int64_t blocks =
      std::min<int64_t>(blocks_for(rows * chunks, kWarps), launch_of(c).multiprocessors * 64);
  start(c, gradient_kernel<T, N>, blocks, kThreads, 0, marks, n, rows, c.input(1).as<const Pack<T, N>>(),
        packs, chunks, c.output().as<Pack<T, N>>());
}

void run_gradient(const KernelContext& c) {
  const TensorView &indices = c.input(0), &dweight = c.output();
  const auto n = static_cast<int32_t>(indices.numel());
  const int64_t rows = dweight.dim(0), columns = dweight.dim(1);
  if (rows == 0) return;
  const Marks marks = Marks::in(c.scratch, rows);
  cudaMemsetAsync(marks.count, 0, static_cast<size_t>(2 * rows) * sizeof(int32_t), launch_of(c).stream);
  dispatch_index(indices.dtype, [&](auto tag) {
    using I = typename decltype(tag)::type;
    const auto& op = c.attributes<ops::EmbeddingGrad>();
    start(c, mark_kernel<I>, blocks_for(n, kThreads), kThreads, 0, indices.as<const I>(), n, op.part.of(rows),
          op.padding_idx, marks, launch_of(c).fault);
  });
  if (dweight.numel() == 0) return;
  dispatch_float(dweight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWidest = 16 / sizeof(T);
    if (columns % kWidest == 0 && aligned_to_packs(c.input(1), dweight))
      start_gradient<T, kWidest>(c, marks, n);
    else
      start_gradient<T, 1>(c, marks, n);
  });
}

int64_t gradient_scratch(const KernelQuery& query) {
  return Marks::bytes(query.outputs[0].shape[0].value(), query.inputs[0].numel());
}

std::optional<std::string> can_run_gradient(const KernelQuery& query) {
  constexpr int64_t kMax = int64_t{1} << 31;
  if (query.inputs[0].numel() >= kMax || query.outputs[0].shape[0].value() >= kMax)
    return "it counts tokens and rows in 32 bits";
  if (!is_float(query.outputs[0].dtype)) return "it sums floating-point numbers only";
  return std::nullopt;
}

constexpr OpKernel kOps[] = {{"embedding", {.name = "rows", .run = run_embedding}},
                             {"embedding_grad",
                              {.name = "marked_rows",
                               .run = run_gradient,
                               .can_run = can_run_gradient,
                               .scratch_bytes = gradient_scratch}}};

}  // namespace

std::span<const OpKernel> embedding_kernels() { return kOps; }

}  // namespace genesis::cuda
