// Exchanges between GPUs of one host by their copy engines: each rank pulls the data it needs out of the others'
// memory, and kernels keep the multiprocessors. Only sums and small tensors take kernels, which are short. Meant for
// exchanges that overlap with other work: ranks synchronize by values that streams write and wait for, which takes
// some 15 us each time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>

#include "backends/collectives.h"
#include "backends/cuda/ranks/peer_kernels.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {

// A tensor of this rank, and its addresses on all ranks.
struct PeerExchange {
  Exchange own;
  PeerTensor at;
};

// Returns whether the tensor starts at a multiple of kPeerAccessBytes on all ranks. Here and below, all ranks get the
// same answer.
bool begins_aligned(const PeerExchange& tensor, int ranks);
// Returns whether the tensor and each rank's shard of it start at such multiples.
bool has_aligned_shards(const PeerExchange& tensor, int ranks);
// Returns whether a gather may write results while other ranks still read their inputs, in whole accesses: each input
// is outside this rank's result, or in its place there.
bool results_spare_inputs(const PeerExchange& gathered, int ranks);

class PeerCopies {
 public:
  // Number of 32-bit flags that each rank lends to all others, zero at first.
  static constexpr int64_t kFlags = 3 * kMaxPeers;

  // `flags`: the flags of all ranks, as this one accesses them.
  PeerCopies(const PeerControl& peers, int device, std::span<uint32_t* const> flags);

  // Dtypes as for PeerSum. All tensors start at multiples of 16 bytes, shards of reduce_scatter too. Counts as for
  // RankGroup.
  void all_reduce(std::span<const PeerExchange> tensors, bool is_mean, cudaStream_t stream);
  void reduce_scatter(std::span<const PeerExchange> tensors, bool is_mean, cudaStream_t stream);
  // Accepts all dtypes.
  void all_gather(std::span<const PeerExchange> tensors, cudaStream_t stream);

  // Returns the first error of CUDA, or an empty text.
  std::string failure() const { return failure_; }
  // Ends the waits of streams for other ranks, once for each wait. Any thread may call it.
  void release();

 private:
  enum Meeting { kReady, kSummed, kDone };

  void meet(Meeting meeting, cudaStream_t stream);
  void copy(void* to, const void* from, int64_t bytes, cudaStream_t stream);
  // Ranges given to pull() are added up by the next finish_sums(), or earlier if there is no more space.
  // Pulls bytes [first, first + bytes) of all ranks' `from` and writes their sum to `to`, which is this rank's.
  void pull(const PeerExchange& tensor, int64_t first, int64_t bytes, std::byte* to, bool is_mean,
            cudaStream_t stream);
  void finish_sums(cudaStream_t stream);
  void gather(std::span<const SmallTensor> tensors, cudaStream_t stream);
  // Copies the other ranks' tensors (for reduce_scatter, their shard number `shard`) into for_small_. add_brought()
  // adds them up in place once no other rank reads the inputs any more.
  void bring(std::span<const PeerExchange> small, int64_t shard, cudaStream_t stream);
  void add_brought(std::span<const PeerExchange> small, int64_t shard, bool is_mean, cudaStream_t stream);
  // Gathers all ranks' shards into the results.
  void gather_small(std::span<const PeerExchange> small, cudaStream_t stream);
  void note(bool is_well, const char* what);

  const PeerControl& peers_;
  const int rank_, size_;
  uint32_t* flags_[kMaxPeers] = {};
  std::shared_ptr<std::byte> memory_;     // kPulledBytes for each rank except this one
  std::shared_ptr<std::byte> for_small_;  // kSmallMemory for each rank
  PulledPieces pulled_;
  int64_t pulled_bytes_ = 0;  // used bytes of each rank's memory
  DType dtype_ = DType::f32;  // dtype and scale of all pulled ranges
  float scale_ = 1;
  std::string failure_;
  Stream release_stream_;
};

}  // namespace genesis::cuda
