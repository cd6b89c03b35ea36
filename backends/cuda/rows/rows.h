// Runs work on the rows of a matrix with a group of threads per row. A row is kept in registers, so that memory is
// read once. A long row is kept in shared memory; the elements that do not fit there are read again, from the L2
// cache. A thread writes only elements that it read itself, so results may overwrite operands.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda {

// The distribution of rows to threads. It depends on the shape alone, and so does the order of every sum.
struct RowPlan {
  int in_registers = 0;  // packs that a thread keeps in registers: 1, 2, 4 or 8; 0: rows are in shared memory
  int group = 32;        // threads per row, a power of two; if more than a warp, the whole block
  int threads = 128;     // threads of a block
  int64_t blocks = 0;    // each has threads / group rows

  // `max_packs` limits the packs per thread; a thread has more only if a row cannot have more threads.
  static RowPlan of(int64_t rows, int64_t packs, bool registers, int max_threads = 1024, int max_packs = 4) {
    constexpr int kMaxPacks = 4, kMaxThreads = 512;  // more threads would not have enough registers
    constexpr int64_t kChip = 128 << 10;             // threads that keep a chip busy
    RowPlan plan;
    plan.group = 1;
    while (plan.group < 32 && plan.group < packs) plan.group *= 2;
    const auto each = [&] { return (packs + plan.group - 1) / plan.group; };
    while (plan.group < kMaxThreads && (each() > max_packs || (each() > 1 && rows * plan.group < kChip)))
      plan.group *= 2;
    const bool fits = each() <= std::max(max_packs, kMaxPacks);
    if (registers && fits)
      plan.in_registers = each() > 4 ? 8 : each() == 3 ? 4 : std::max(1, static_cast<int>(each()));
    if (!fits) plan.group = max_threads;
    plan.threads = plan.group > 32 ? plan.group : 128;
    plan.blocks = blocks_for(rows, plan.threads / plan.group);
    return plan;
  }
};

#ifdef __CUDACC__

// One thread's place in its row.
struct RowLane {
  int64_t row, packs;  // packs: 0 in groups that have no row
  int first, step;     // the thread has packs first, first + step, ...
  bool there;          // the group has a row

  __device__ RowLane(int64_t rows, int64_t row_packs, int group) {
    row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group;
    there = row < rows;
    packs = there ? row_packs : 0;
    if (!there) row = 0;
    first = static_cast<int>(threadIdx.x) % group;
    step = group;
  }
};

// A row in the registers of its group, in the memory format.
template <class T, int N, int K>
struct RegisterRow {
  using P = Pack<T, N>;
  static_assert(sizeof(P) == sizeof(Words));
  Words at[K];

  __device__ RegisterRow(const void* rows, const RowLane& lane, P*, int) {
    const Words* row = static_cast<const Words*>(rows) + lane.row * lane.packs;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (const int i = lane.first + k * lane.step; i < lane.packs) at[k] = row[i];
  }
  __device__ P get(int k, int64_t) const { return pack_of<T>(at[k]); }
};

// A row in memory, with its first `cached` packs in shared memory.
template <class T, int N>
struct SharedRow {
  using P = Pack<T, N>;
  const P* row;
  P* cache;
  int cached;

  __device__ SharedRow(const void* rows, const RowLane& lane, P* shared, int in_shared)
      : row(static_cast<const P*>(rows) + lane.row * lane.packs), cache(shared), cached(in_shared) {
    constexpr int kAhead = 4;  // loads in flight at once
#pragma unroll 1
    for (int64_t i = lane.first; i < min(lane.packs, static_cast<int64_t>(cached)); i += kAhead * lane.step) {
      P ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (const int64_t at = i + k * lane.step; at < lane.packs && at < cached) ahead[k] = row[at];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (const int64_t at = i + k * lane.step; at < lane.packs && at < cached) cache[at] = ahead[k];
    }
  }
  __device__ P get(int, int64_t i) const { return i < cached ? cache[i] : row[i]; }
};

template <class T, int N, int K>
struct RowOf {
  using type = RegisterRow<T, N, K>;
};
template <class T, int N>
struct RowOf<T, N, 0> {
  using type = SharedRow<T, N>;
};

// Calls body(index of the pack, packs of the rows...) for the thread's packs. kUnroll is the unroll factor for rows
// in shared memory; a greater one takes long to compile.
template <int kUnroll = 2, class Body, class T, int N, int K, class... Others>
__device__ void each_pack(const RowLane& lane, const Body& body, const RegisterRow<T, N, K>& row,
                          const Others&... others) {
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (const int i = lane.first + k * lane.step; i < lane.packs)
      body(static_cast<int64_t>(i), row.get(k, i), others.get(k, i)...);
}
template <int kUnroll = 2, class Body, class T, int N, class... Others>
__device__ void each_pack(const RowLane& lane, const Body& body, const SharedRow<T, N>& row,
                          const Others&... others) {
#pragma unroll kUnroll
  for (int64_t i = lane.first; i < lane.packs; i += lane.step) body(i, row.get(0, i), others.get(0, i)...);
}

// The arguments of a row kernel besides its own parameters. A row has n = packs * N elements.
struct RowCall {
  int64_t rows = 0, packs = 0;
  int group = 32;
  int cached = 0;  // packs of each input that fit into shared memory
};

// Returns the number of blocks of 512 threads whose registers must fit into a multiprocessor together, for rows in
// registers.
template <class Work, int K>
constexpr int blocks_at_once() {
  if constexpr (requires { Work::kBlocksAtOnce; }) return K == 1 || K == 2 ? Work::kBlocksAtOnce : 1;
  return 1;
}

// `work` is a struct with
//     template <class T, int N, int K> __device__ void row(RowCall, RowLane, Pack<T, N>* shared) const.
// A work with compile-time variants may have a function in_shared(). It returns the work for rows in shared memory,
// which are long or unaligned, with flags for the variants, so that one kernel serves them all.
template <class T, int N, int K, class Work>
__global__ void __launch_bounds__(K == 0 ? 1024 : 512, blocks_at_once<Work, K>())
    row_kernel(RowCall call, Work work) {
  begin_in_order();
  extern __shared__ __align__(16) unsigned char shared_rows[];
  work.template row<T, N, K>(call, RowLane(call.rows, call.packs, call.group),
                             reinterpret_cast<Pack<T, N>*>(shared_rows));
}

template <class Work>
auto in_shared(const Work& work) {
  if constexpr (requires { work.in_shared(); })
    return work.in_shared();
  else
    return work;
}

// Starts the kernel for rows in shared memory, one block per row: the row's `inputs` tensors go to shared memory as
// far as they fit.
template <class T, int N, class Work>
void start_shared(const KernelContext& c, RowCall call, const RowPlan& plan, int inputs, const Work& work) {
  size_t bytes = 0;
  if (plan.group == plan.threads && inputs > 0) {
    constexpr int kReserved = 2 << 10;  // for static declarations of kernels
    const int64_t shared_packs =
        (shared_bytes_limit() - kReserved) / (16 * inputs) * 16 / int64_t{sizeof(T) * N};
    call.cached = static_cast<int>(std::min(call.packs, shared_packs));
    bytes = static_cast<size_t>(call.cached) * sizeof(T) * N * static_cast<size_t>(inputs);
    cudaFuncSetAttribute(row_kernel<T, N, 0, Work>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  }
  start_with_pdl(c, row_kernel<T, N, 0, Work>, plan.blocks, plan.threads, bytes, call, work);
}

// Runs `work` over all rows of n elements of T and reads `inputs` tensors. kRegisters: keep short rows in registers.
// `max_packs` as in RowPlan::of().
template <class T, bool kRegisters = true, class Work>
void start_rows(const KernelContext& c, int64_t rows, int64_t n, int inputs, const Work& work,
                int max_packs = 4) {
  if (rows == 0 || n == 0) return;
  with_packs<T>(c, n, [&](auto size) {
    constexpr int N = size();
    constexpr bool kMayUseRegisters = kRegisters && !std::is_same_v<T, double> && N > 1;
    RowCall call{.rows = rows, .packs = n / N};
    const RowPlan plan = RowPlan::of(rows, call.packs, kMayUseRegisters, 1024, max_packs);
    call.group = plan.group;
    if constexpr (kMayUseRegisters) {
      const auto in_registers = [&](auto k) {
        start_with_pdl(c, row_kernel<T, N, k(), Work>, plan.blocks, plan.threads, 0, call, work);
      };
      if (plan.in_registers == 1) return in_registers(std::integral_constant<int, 1>{});
      if (plan.in_registers == 2) return in_registers(std::integral_constant<int, 2>{});
      if (plan.in_registers == 4) return in_registers(std::integral_constant<int, 4>{});
    }
    start_shared<T, N>(c, call, plan, inputs, in_shared(work));
  });
}

#endif

}  // namespace genesis::cuda
