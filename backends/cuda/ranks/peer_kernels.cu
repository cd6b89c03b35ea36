#include <bit>

#include "backends/cuda/device/packs.h"
#include "backends/cuda/ranks/peer_kernels.h"

namespace genesis::cuda {
namespace {

constexpr int kInFlightOfAll = 8;  // accesses of a thread at a time, to all ranks' memory together
constexpr int kBlocksBeside =
    64;  // where products run beside: enough for the memory's speed, few enough for them
constexpr unsigned kPollsBetweenLooks = 4096;

template <class T>
constexpr int kPack = kPeerAccessBytes / sizeof(T);
template <class T>
using PeerPack = Pack<T, kPack<T>>;

template <class T>
__host__ __device__ int64_t packs_of(int64_t count) {
  return (count + kPack<T> - 1) / kPack<T>;
}

// Past the first cache, in which what another GPU has written since would be missed.
__device__ __forceinline__ uint4 read_past_cache(const void* from) {
  uint4 x;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

__device__ __forceinline__ void set_flag(uint32_t* flag, uint32_t epoch) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(epoch) : "memory");
}

// Whether the flag came; not where the run has failed.
__device__ bool await_flag(const PeerControl& peers, const uint32_t* flag, uint32_t epoch) {
  for (unsigned polls = 1;; ++polls) {
    uint32_t seen;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if (static_cast<int32_t>(seen - epoch) >= 0) return true;  // a peer may be one meeting ahead
    if (polls % kPollsBetweenLooks == 0 && *peers.has_failed) return false;
  }
}

// Waits for the blocks of this number on all ranks, which then see what each has written before. The same on all threads;
// false where the run has failed.
__device__ bool meet(const PeerControl& peers) {
  const int block = static_cast<int>(blockIdx.x), peer = static_cast<int>(threadIdx.x);
  const uint32_t epoch = peers.epochs[block] + 1;
  __syncthreads();
  bool came = true;
  if (peer < peers.size && peer != peers.rank) {
    __threadfence_system();
    set_flag(peers.flags[peer] + block * kMaxPeers + peers.rank, epoch);
    came = await_flag(peers, peers.flags[peers.rank] + block * kMaxPeers + peer, epoch);
  }
  const bool all_came = __syncthreads_and(came);
  if (threadIdx.x == 0) peers.epochs[block] = epoch;
  __syncthreads();
  return all_came;
}

// Elements [at, at + kPack) of which those from `count` on are not there.
template <class T>
__device__ uint4 read_own(const T* from, int64_t at, int64_t count) {
  if (at + kPack<T> <= count) return *reinterpret_cast<const uint4*>(from + at);
  PeerPack<T> pack{};
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k)
    if (at + k < count) pack.at[k] = from[at + k];
  return reinterpret_cast<const uint4&>(pack);
}

template <class T>
__device__ uint4 read_peer(const T* from, int64_t at, int64_t count) {
  if (at + kPack<T> <= count) return read_past_cache(from + at);
  PeerPack<T> pack{};
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k)
    if (at + k < count) pack.at[k] = const_cast<const volatile T*>(from)[at + k];
  return reinterpret_cast<const uint4&>(pack);
}

template <class T>
__device__ void write_pack(T* to, int64_t at, int64_t count, const uint4& x) {
  if (at + kPack<T> <= count) {
    *reinterpret_cast<uint4*>(to + at) = x;
    return;
  }
  const PeerPack<T> pack = reinterpret_cast<const PeerPack<T>&>(x);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k)
    if (at + k < count) to[at + k] = pack.at[k];
}

// Memory that may begin anywhere.
template <class T>
__device__ PeerPack<T> addend_at(const T* from, int64_t at, int64_t count) {
  const bool is_aligned = reinterpret_cast<uintptr_t>(from) % kPeerAccessBytes == 0;
  const uint4 pack = read_own(from, at, is_aligned ? count : 0);
  if (is_aligned) return reinterpret_cast<const PeerPack<T>&>(pack);
  PeerPack<T> single{};
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k)
    if (at + k < count) single.at[k] = from[at + k];
  return single;
}

// What is done to a sum.
template <class T>
struct Epilogue {
  float scale;
  const T* addend;  // null: nothing is added
};

template <class T, int kRanks>
__device__ uint4 sum_of(const uint4 (&parts)[kRanks], int ranks, const Epilogue<T>& epilogue, int64_t at,
                        int64_t count) {
  float sum[kPack<T>];
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    const PeerPack<T> part = reinterpret_cast<const PeerPack<T>&>(parts[r]);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k)
      if (r == 0)
        sum[k] = widen(part.at[k]);
      else if (r < ranks)
        sum[k] += widen(part.at[k]);
  }
  PeerPack<T> addend{}, result;
  if (epilogue.addend) addend = addend_at(epilogue.addend, at, count);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k)
    result.at[k] =
        narrow<T>(epilogue.addend ? sum[k] * epilogue.scale + widen(addend.at[k]) : sum[k] * epilogue.scale);
  return reinterpret_cast<const uint4&>(result);
}

template <class T, int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    one_shot_kernel(PeerControl peers, const T* from, T* to, int64_t count, Epilogue<T> epilogue) {
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x, at = piece * kPack<T>;
  const uint32_t turn = (peers.epochs[blockIdx.x] + 1) & 1;
  const auto slot = [&](int reader, int writer) {
    return peers.slots[reader] + (turn * peers.size + writer) * kOneShotBytes + piece * kPeerAccessBytes;
  };
  uint4 parts[kRanks] = {};
  uint4 mine{};
  if (at < count) {
    mine = read_own(from, at, count);
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r < peers.size && r != peers.rank) *reinterpret_cast<uint4*>(slot(r, peers.rank)) = mine;
  }
  if (!meet(peers) || at >= count) return;
#pragma unroll
  for (int r = 0; r < kRanks; ++r)
    if (r < peers.size) parts[r] = r == peers.rank ? mine : read_past_cache(slot(peers.rank, r));
  write_pack(to, at, count, sum_of<T>(parts, peers.size, epilogue, at, count));
}

// Of `count` elements of all ranks each adds up a part, and writes it to its place in all ranks' `to`; or to its own `part`.
template <class T, int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    two_shot_kernel(PeerControl peers, PeerTensor tensor, T* own_part, int64_t count, Epilogue<T> epilogue) {
  constexpr int kInFlight = kInFlightOfAll / kRanks;
  if (!meet(peers)) return;
  const int64_t packs = packs_of<T>(count), part = (packs + peers.size - 1) / peers.size;
  const int64_t begin = part * peers.rank, end = min(packs, begin + part);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  for (int64_t first = begin + static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x; first < end;
       first += kInFlight * stride) {
    uint4 parts[kInFlight][kRanks] = {};
#pragma unroll
    for (int f = 0; f < kInFlight; ++f)
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r < peers.size && first + f * stride < end)
          parts[f][r] =
              read_peer(static_cast<const T*>(tensor.from[r]), (first + f * stride) * kPack<T>, count);
#pragma unroll
    for (int f = 0; f < kInFlight; ++f) {
      if (first + f * stride >= end) break;
      const int64_t at = (first + f * stride) * kPack<T>;
      const uint4 sum = sum_of<T>(parts[f], peers.size, epilogue, at, count);
      if (own_part) {
        write_pack(own_part, at - begin * kPack<T>, (end - begin) * kPack<T>, sum);
        continue;
      }
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r < peers.size) write_pack(static_cast<T*>(tensor.to[r]), at, count, sum);
    }
  }
  meet(peers);  // others have written here, and have read what comes next may overwrite
}

// Every rank writes its `from`, of `packs` accesses, to its place in all ranks' `to`.
template <int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    push_kernel(PeerControl peers, PeerTensor tensor, int64_t packs) {
  constexpr int kInFlight = kInFlightOfAll / 2;
  if (!meet(peers)) return;  // nobody reads `to` any more
  const auto* const from = static_cast<const uint4*>(tensor.from[peers.rank]);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x; first < packs;
       first += kInFlight * stride) {
    uint4 x[kInFlight];
#pragma unroll
    for (int f = 0; f < kInFlight; ++f)
      if (first + f * stride < packs) x[f] = from[first + f * stride];
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r >= peers.size) break;
      uint4* const to = static_cast<uint4*>(tensor.to[r]) + peers.rank * packs;
#pragma unroll
      for (int f = 0; f < kInFlight; ++f)
        if (first + f * stride < packs) to[first + f * stride] = x[f];
    }
  }
  meet(peers);
}

template <class T, int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    sum_of_pieces_kernel(const __grid_constant__ PulledPieces pulled, int rank, int ranks, int64_t packs,
                         float scale) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  int piece = 0;
  int64_t first = 0;  // pack of that piece
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x; i < packs; i += stride) {
    for (int64_t its; i - first >= (its = packs_of<T>(pulled.pieces[piece].count)); ++piece) first += its;
    const PeerPiece& own = pulled.pieces[piece];
    const int64_t at = (i - first) * kPack<T>;
    uint4 x[kRanks] = {};
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r < ranks)
        x[r] = read_own(reinterpret_cast<const T*>(r == rank ? own.own : pulled.others[r] + own.pulled), at,
                        own.count);
    write_pack(reinterpret_cast<T*>(own.to), at, own.count,
               sum_of<T>(x, ranks, Epilogue<T>{scale, nullptr}, at, own.count));
  }
}

// A column of blocks has a tensor.
__global__ void __launch_bounds__(kPeerThreads)
    gather_kernel(const __grid_constant__ SmallTensors small, int rank, int ranks) {
  const SmallTensor& tensor = small.tensors[blockIdx.y];
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x) * kPeerAccessBytes,
                stride = static_cast<int64_t>(gridDim.x) * kPeerThreads * kPeerAccessBytes;
  for (int next = 1; next < ranks; ++next) {
    const int peer = (rank + next) % ranks;
    const auto* from = static_cast<const uint8_t*>(tensor.from[peer]);
    auto* to = reinterpret_cast<uint8_t*>(small.to[peer] + tensor.gathered);
    for (int64_t at = first; at < tensor.bytes; at += stride)
      write_pack(to, at, tensor.bytes, read_peer(from, at, tensor.bytes));
  }
}

// body(Tag<T>{}, the least of 2, 4, 8 that so many ranks fit into).
template <class Body>
void dispatch(DType dtype, int ranks, const Body& body) {
  const auto with_ranks = [&](auto tag) {
    switch (std::bit_ceil(static_cast<unsigned>(ranks))) {
      case 8:
        return body(tag, std::integral_constant<int, 8>{});
      case 4:
        return body(tag, std::integral_constant<int, 4>{});
      default:
        return body(tag, std::integral_constant<int, 2>{});
    }
  };
  if (dtype == DType::f16) return with_ranks(Tag<__half>{});
  if (dtype == DType::bf16) return with_ranks(Tag<__nv_bfloat16>{});
  with_ranks(Tag<float>{});
}

template <class T>
Epilogue<T> epilogue_of(const PeerSum& sum) {
  return {sum.scale, static_cast<const T*>(sum.addend)};
}

int64_t blocks_of(const PeerSum& sum) {
  return blocks_for(sum.count * static_cast<int64_t>(size_of(sum.dtype)), kOneShotBlockBytes);
}

}  // namespace

void start_one_shot(const PeerControl& peers, const PeerSum& sum, const void* from, void* to,
                    cudaStream_t stream) {
  dispatch(sum.dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    one_shot_kernel<T, decltype(ranks)::value>
        <<<static_cast<unsigned>(blocks_of(sum)), kPeerThreads, 0, stream>>>(
            peers, static_cast<const T*>(from), static_cast<T*>(to), sum.count, epilogue_of<T>(sum));
  });
}

void start_two_shot(const PeerControl& peers, const PeerSum& sum, const PeerTensor& tensor,
                    cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(kMaxPeerBlocks, blocks_for(blocks_of(sum), peers.size));
  dispatch(sum.dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    two_shot_kernel<T, decltype(ranks)::value><<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(
        peers, tensor, nullptr, sum.count, epilogue_of<T>(sum));
  });
}

void start_scatter(const PeerControl& peers, const PeerSum& sum, const PeerTensor& tensor,
                   cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(kMaxPeerBlocks, blocks_of(sum));
  dispatch(sum.dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    two_shot_kernel<T, decltype(ranks)::value><<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(
        peers, tensor, static_cast<T*>(tensor.to[peers.rank]), sum.count * peers.size, epilogue_of<T>(sum));
  });
}

void start_push(const PeerControl& peers, int64_t bytes, const PeerTensor& tensor, cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(kMaxPeerBlocks, blocks_for(bytes, kOneShotBlockBytes));
  dispatch(DType::f32, peers.size, [&](auto, auto ranks) {
    push_kernel<decltype(ranks)::value>
        <<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(peers, tensor, bytes / kPeerAccessBytes);
  });
}

void start_sum_of_pieces(const PeerControl& peers, DType dtype, float scale, const PulledPieces& pieces,
                         cudaStream_t stream) {
  dispatch(dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    int64_t packs = 0;
    for (int i = 0; i < pieces.count; ++i) packs += packs_of<T>(pieces.pieces[i].count);
    const int64_t blocks = std::min<int64_t>(kBlocksBeside, blocks_for(packs, kPeerThreads));
    sum_of_pieces_kernel<T, decltype(ranks)::value>
        <<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(pieces, peers.rank, peers.size, packs,
                                                                     scale);
  });
}

void start_gather(const PeerControl& peers, const SmallTensors& tensors, cudaStream_t stream) {
  constexpr unsigned kBlocksOfTensor = 8;
  const dim3 blocks(kBlocksOfTensor, static_cast<unsigned>(tensors.count));
  gather_kernel<<<blocks, kPeerThreads, 0, stream>>>(tensors, peers.rank, peers.size);
}

}  // namespace genesis::cuda
