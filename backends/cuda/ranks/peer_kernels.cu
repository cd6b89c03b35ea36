#include <bit>

#include "backends/cuda/device/packs.h"
#include "backends/cuda/ranks/peer_kernels.h"

namespace genesis::cuda {
namespace {

constexpr int kInFlightOfAll = 8;  // accesses in flight per thread, to all ranks' memory together
// One block per multiprocessor of an H100: products that run at the same time wait for the multiprocessors of a sum,
// so it should be short. Chips with more of them leave some to those products.
constexpr int kBlocksOfSum = 132;
constexpr unsigned kPollsBetweenLooks = 4096;

template <class T>
constexpr int kPack = kPeerAccessBytes / sizeof(T);
template <class T>
using PeerPack = Pack<T, kPack<T>>;

template <class T>
__host__ __device__ int64_t packs_of(int64_t count) {
  return (count + kPack<T> - 1) / kPack<T>;
}

// Bypasses the L1 cache, which would hide what another GPU has written since.
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

// Packs 32 bits of data and their flag into one access of 64 bits, so that they arrive together.
__device__ __forceinline__ uint64_t flagged(uint32_t bits, uint32_t flag) {
  return uint64_t{flag} << 32 | bits;
}

// Writes twice kPeerAccessBytes at `to`, which a peer polls.
__device__ __forceinline__ void push_flagged(std::byte* to, const uint4& x, uint32_t flag) {
  const auto put = [&](std::byte* at, uint32_t a, uint32_t b) {
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(at), "l"(flagged(a, flag)),
                 "l"(flagged(b, flag))
                 : "memory");
  };
  put(to, x.x, x.y);
  put(to + kPeerAccessBytes, x.z, x.w);
}

// Waits until all that a peer pushes to `from` has arrived, and returns it in x. Returns false if the run has failed.
__device__ bool await_flagged(const PeerControl& peers, const std::byte* from, uint32_t flag, uint4& x) {
  for (unsigned polls = 1;; ++polls) {
    uint64_t words[4];
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(words[0]), "=l"(words[1])
                 : "l"(from)
                 : "memory");
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(words[2]), "=l"(words[3])
                 : "l"(from + kPeerAccessBytes)
                 : "memory");
    bool all_came = true;
    for (const uint64_t word : words) all_came &= static_cast<uint32_t>(word >> 32) == flag;
    x = {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1]), static_cast<uint32_t>(words[2]),
         static_cast<uint32_t>(words[3])};
    if (all_came) return true;
    if (polls % kPollsBetweenLooks == 0 && *peers.has_failed) return false;
  }
}

// Waits for a flag. Returns false if the run has failed.
__device__ bool await_flag(const PeerControl& peers, const uint32_t* flag, uint32_t epoch) {
  for (unsigned polls = 1;; ++polls) {
    uint32_t seen;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if (static_cast<int32_t>(seen - epoch) >= 0) return true;  // a peer may be one meeting ahead
    if (polls % kPollsBetweenLooks == 0 && *peers.has_failed) return false;
  }
}

// Waits for the blocks with this number on all ranks, which then see what each of them has written before. Returns
// the same value on all threads: false if the run has failed.
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

// Reads elements [at, at + kPack); those from `count` on are zeros.
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

// Reads elements of memory that may start anywhere.
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

// Operations on a sum before it is written.
template <class T>
struct Epilogue {
  float scale;
  const T* addend;  // null: nothing is added
};

template <class T, int kRanks>
__device__ uint4 sum_of(const uint4 (&packs)[kRanks], int ranks, const Epilogue<T>& epilogue, int64_t at,
                        int64_t count) {
  float sum[kPack<T>];
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    const PeerPack<T> pack = reinterpret_cast<const PeerPack<T>&>(packs[r]);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k)
      if (r == 0)
        sum[k] = widen(pack.at[k]);
      else if (r < ranks)
        sum[k] += widen(pack.at[k]);
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
  begin_in_order();
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x, at = piece * kPack<T>;
  const uint32_t epoch = peers.epochs[blockIdx.x] + 1;
  const auto slot = [&](int reader, int writer) {
    return peers.slots[reader] + ((epoch & 1) * peers.size + writer) * kSlotBytes + piece * kPieceOfSlotBytes;
  };
  if (at < count) {
    uint4 packs[kRanks] = {};
    const uint4 mine = read_own(from, at, count);
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r < peers.size && r != peers.rank) push_flagged(slot(r, peers.rank), mine, epoch);
    bool all_came = true;
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r == peers.rank)
        packs[r] = mine;
      else if (r < peers.size)
        all_came &= await_flagged(peers, slot(peers.rank, r), epoch, packs[r]);
    if (all_came) write_pack(to, at, count, sum_of<T>(packs, peers.size, epilogue, at, count));
  }
  __syncthreads();  // until all threads have read the epoch
  if (threadIdx.x == 0) peers.epochs[blockIdx.x] = epoch;
}

// Packs [begin, end) of a tensor.
struct PackRange {
  int64_t begin, end;
};

// Returns the packs, out of `packs`, that this rank adds up.
__device__ PackRange share_of(const PeerControl& peers, int64_t packs) {
  const int64_t each = (packs + peers.size - 1) / peers.size, begin = min(packs, each * peers.rank);
  return {begin, min(packs, begin + each)};
}

// Walks over packs of several tensors, one tensor after the other; of tensor t, over the packs in range_of(t).
template <class RangeOf>
struct PackWalk {
  const int tensors;
  const RangeOf range_of;
  int tensor = 0;
  PackRange range = range_of(0);
  int64_t pack = 0;   // index in the tensor
  int64_t first = 0;  // index of the tensor's first pack in the walk

  // Moves to pack i of the walk, which is not before that of the last call. Returns false if the walk has no pack i.
  __device__ bool seek(int64_t i) {
    while (i - first >= range.end - range.begin) {
      if (tensor + 1 >= tensors) return false;
      first += range.end - range.begin;
      range = range_of(++tensor);
    }
    pack = range.begin + i - first;
    return true;
  }
};

// Each rank adds up its shard of each tensor over all ranks and writes it to its place in all ranks' `to`. With
// `own_shard`, for one tensor, it writes the shard only there.
template <class T, int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    two_shot_kernel(PeerControl peers, const __grid_constant__ PeerTensors tensors, T* own_shard,
                    Epilogue<T> epilogue) {
  constexpr int kInFlight = kInFlightOfAll / kRanks;
  if (!meet(peers)) return;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  PackWalk own{tensors.count, [&](int t) { return share_of(peers, packs_of<T>(tensors.counts[t])); }};
  int64_t i = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x;
  for (bool has_more = true; has_more;) {
    uint4 packs[kInFlight][kRanks] = {};
    int64_t at[kInFlight];
    int tensor[kInFlight];
#pragma unroll
    for (int f = 0; f < kInFlight; ++f, i += stride) {
      has_more = own.seek(i);
      tensor[f] = has_more ? own.tensor : -1, at[f] = own.pack * kPack<T>;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (has_more && r < peers.size)
          packs[f][r] = read_peer(static_cast<const T*>(tensors.at[tensor[f]].from[r]), at[f],
                                  tensors.counts[tensor[f]]);
    }
#pragma unroll
    for (int f = 0; f < kInFlight; ++f) {
      if (tensor[f] < 0) break;
      const int64_t count = tensors.counts[tensor[f]];
      const uint4 sum = sum_of<T>(packs[f], peers.size, epilogue, at[f], count);
      if (own_shard) {
        const auto [begin, end] = own.range;
        write_pack(own_shard, at[f] - begin * kPack<T>, (end - begin) * kPack<T>, sum);
        continue;
      }
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r < peers.size) write_pack(static_cast<T*>(tensors.at[tensor[f]].to[r]), at[f], count, sum);
    }
  }
  meet(peers);  // until others have written here, and have read what the next kernel may overwrite
}

// Every rank writes its `from` of each tensor to its place in all ranks' `to`. The tensors' counts are in accesses of
// kPeerAccessBytes.
template <int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    push_kernel(PeerControl peers, const __grid_constant__ PeerTensors tensors) {
  constexpr int kInFlight = kInFlightOfAll / 2;
  if (!meet(peers)) return;  // after this no rank reads `to` any more
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  PackWalk own{tensors.count, [&](int t) { return PackRange{0, tensors.counts[t]}; }};
  int64_t i = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x;
  for (bool has_more = true; has_more;) {
    uint4 x[kInFlight];
    int64_t at[kInFlight];  // index in the tensor's `to`
    int tensor[kInFlight];
#pragma unroll
    for (int f = 0; f < kInFlight; ++f, i += stride) {
      has_more = own.seek(i);
      tensor[f] = has_more ? own.tensor : -1;
      if (!has_more) continue;
      at[f] = peers.rank * tensors.counts[own.tensor] + own.pack;
      x[f] = static_cast<const uint4*>(tensors.at[own.tensor].from[peers.rank])[own.pack];
    }
#pragma unroll
    for (int f = 0; f < kInFlight; ++f) {
      if (tensor[f] < 0) break;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r < peers.size) static_cast<uint4*>(tensors.at[tensor[f]].to[r])[at[f]] = x[f];
    }
  }
  meet(peers);
}

template <class T, int kRanks>
__global__ void __launch_bounds__(kPeerThreads)
    sum_of_pieces_kernel(const __grid_constant__ PulledPieces pulled, int rank, int ranks, float scale) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  PackWalk walk{pulled.count, [&](int t) { return PackRange{0, packs_of<T>(pulled.pieces[t].count)}; }};
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x; walk.seek(i); i += stride) {
    const PeerPiece& own = pulled.pieces[walk.tensor];
    const int64_t at = walk.pack * kPack<T>;
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

// Each column of blocks copies one tensor.
__global__ void __launch_bounds__(kPeerThreads)
    gather_kernel(const __grid_constant__ SmallTensors small, int rank, int ranks) {
  const SmallTensor& tensor = small.tensors[blockIdx.y];
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x) * kPeerAccessBytes,
                stride = static_cast<int64_t>(gridDim.x) * kPeerThreads * kPeerAccessBytes;
  for (int next = 0; next < ranks; ++next) {
    const int peer = (rank + next) % ranks;
    const auto* from = static_cast<const uint8_t*>(tensor.from[peer]);
    if (!from) continue;
    auto* to = reinterpret_cast<uint8_t*>(tensor.to + peer * tensor.stride);
    for (int64_t at = first; at < tensor.bytes; at += stride)
      write_pack(to, at, tensor.bytes, read_peer(from, at, tensor.bytes));
  }
}

// Calls body(Tag<T>{}, the least of 2, 4 and 8 that is not below `ranks`).
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

void start_one_shot(const PeerControl& peers, const PeerSum& sum, const void* from, void* to, Launch launch) {
  launch.shares_memory = true;  // the products before and after it have it, too
  dispatch(sum.dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    start_with_pdl(launch, one_shot_kernel<T, decltype(ranks)::value>, static_cast<unsigned>(blocks_of(sum)),
                   kPeerThreads, 0, peers, static_cast<const T*>(from), static_cast<T*>(to), sum.count,
                   epilogue_of<T>(sum));
  });
}

void start_two_shot(const PeerControl& peers, const PeerSum& sum, const PeerTensors& tensors,
                    cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(kMaxPeerBlocks, blocks_for(blocks_of(sum), peers.size));
  dispatch(sum.dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    two_shot_kernel<T, decltype(ranks)::value><<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(
        peers, tensors, nullptr, epilogue_of<T>(sum));
  });
}

void start_scatter(const PeerControl& peers, const PeerSum& sum, const PeerTensor& tensor,
                   cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(kMaxPeerBlocks, blocks_of(sum));
  PeerTensors tensors;
  tensors.add(tensor, sum.count * peers.size);
  dispatch(sum.dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    two_shot_kernel<T, decltype(ranks)::value><<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(
        peers, tensors, static_cast<T*>(tensor.to[peers.rank]), epilogue_of<T>(sum));
  });
}

void start_push(const PeerControl& peers, const PeerTensors& tensors, cudaStream_t stream) {
  int64_t accesses = 0;
  for (int t = 0; t < tensors.count; ++t) accesses += tensors.counts[t];
  const int64_t blocks = std::min<int64_t>(kMaxPeerBlocks, blocks_for(accesses, kPeerThreads));
  dispatch(DType::f32, peers.size, [&](auto, auto ranks) {
    push_kernel<decltype(ranks)::value>
        <<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(peers, tensors);
  });
}

void start_sum_of_pieces(const PeerControl& peers, DType dtype, float scale, const PulledPieces& pieces,
                         cudaStream_t stream) {
  dispatch(dtype, peers.size, [&](auto tag, auto ranks) {
    using T = typename decltype(tag)::type;
    int64_t packs = 0;
    for (int i = 0; i < pieces.count; ++i) packs += packs_of<T>(pieces.pieces[i].count);
    const int64_t blocks = std::min<int64_t>(kBlocksOfSum, blocks_for(packs, kPeerThreads));
    sum_of_pieces_kernel<T, decltype(ranks)::value>
        <<<static_cast<unsigned>(blocks), kPeerThreads, 0, stream>>>(pieces, peers.rank, peers.size, scale);
  });
}

void start_gather(const PeerControl& peers, const SmallTensors& tensors, cudaStream_t stream) {
  constexpr unsigned kBlocksOfTensor = 8;
  const dim3 blocks(kBlocksOfTensor, static_cast<unsigned>(tensors.count));
  gather_kernel<<<blocks, kPeerThreads, 0, stream>>>(tensors, peers.rank, peers.size);
}

}  // namespace genesis::cuda
