// Exchanges between GPUs of one host by their copy engines: each pulls what it needs out of the others' memory, beside
// kernels whose multiprocessors stay theirs. Only sums and small tensors take kernels, which are short. Made for exchanges
// that have other work to hide behind: ranks meet by values that streams write and wait for, which takes some 15 us each time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>

#include "backends/collectives.h"
#include "backends/cuda/ranks/peer_kernels.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {

// A tensor of this rank, and where all ranks have theirs.
struct PeerExchange {
  Exchange own;
  PeerTensor at;
};

// All ranks' memory of it at multiples of kPeerAccessBytes. All ranks come to the same answer, here and below.
bool begins_aligned(const PeerExchange& tensor, int ranks);
// Each rank's part too.
bool has_aligned_parts(const PeerExchange& tensor, int ranks);
// Whether parts may be written into all ranks' results while ranks still read their own, in whole accesses: own parts lie
// elsewhere, or in their places.
bool may_come_at_once(const PeerExchange& gathered, int ranks);

class PeerCopies {
 public:
  // 32-bit words that each rank must lend to all others, zero at first.
  static constexpr int64_t kFlags = 3 * kMaxPeers;

  // `flags`: of all ranks, as this one reaches them.
  PeerCopies(const PeerControl& peers, int device, std::span<uint32_t* const> flags);

  // Elements as PeerSum says; all start at multiples of 16 bytes, parts of reduce_scatter too. Counts as RankGroup says.
  void all_reduce(std::span<const PeerExchange> tensors, bool is_mean, cudaStream_t stream);
  void reduce_scatter(std::span<const PeerExchange> tensors, bool is_mean, cudaStream_t stream);
  // Elements of any kind.
  void all_gather(std::span<const PeerExchange> tensors, cudaStream_t stream);

  // What CUDA refused, once; empty: nothing.
  std::string failure() const { return failure_; }
  // Lets streams that wait for other ranks go on, once for each wait. Any thread may call it.
  void release();

 private:
  enum Meeting { kReady, kSummed, kDone };

  void meet(Meeting meeting, cudaStream_t stream);
  void copy(void* to, const void* from, int64_t bytes, cudaStream_t stream);
  // What pull() is told to add up is added up by the next finish_sums(), or earlier, where there is no more room.
  // Bytes [first, first + bytes) of all ranks' `from`, into `to`, which is this rank's.
  void pull(const PeerExchange& tensor, int64_t first, int64_t bytes, std::byte* to, bool is_mean,
            cudaStream_t stream);
  void finish_sums(cudaStream_t stream);
  void gather(std::span<const SmallTensor> tensors, cudaStream_t stream);
  // Others' tensors, of reduce_scatter the part of this number of them, come into for_small_; once no other rank reads them any
  // more they are added up in their places.
  void bring(std::span<const PeerExchange> small, int64_t part, cudaStream_t stream);
  void add_brought(std::span<const PeerExchange> small, int64_t part, bool is_mean, cudaStream_t stream);
  // All ranks' parts come into the results.
  void gather_small(std::span<const PeerExchange> small, cudaStream_t stream);
  void note(bool is_well, const char* what);

  const PeerControl& peers_;
  const int rank_, size_;
  uint32_t* flags_[kMaxPeers] = {};
  std::shared_ptr<std::byte> memory_;     // kPulledBytes for each rank but this one
  std::shared_ptr<std::byte> for_small_;  // kSmallRoom for each rank
  PulledPieces pulled_;
  int64_t pulled_bytes_ = 0;  // of each rank
  DType dtype_ = DType::f32;  // and scale: of all that is pulled
  float scale_ = 1;
  std::string failure_;
  Stream release_stream_;
};

}  // namespace genesis::cuda
