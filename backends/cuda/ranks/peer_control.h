// The memory through which kernels on GPUs of one host synchronize: each rank owns some of it and all others map it.
// Kernels that access other ranks' memory take these arguments.
#pragma once

#include <cstdint>

namespace genesis::cuda {

inline constexpr int kMaxPeers = 8;         // ranks of a group that access each other's memory
inline constexpr int kMaxPeerBlocks = 128;  // blocks of a kernel that synchronizes with its peers
inline constexpr int kPeerThreads = 512;    // threads per block
inline constexpr int64_t kPeerAccessBytes = 16;
inline constexpr int64_t kOneShotBlockBytes = kPeerThreads * kPeerAccessBytes;
// The largest tensor that start_one_shot() accepts.
inline constexpr int64_t kOneShotBytes = 64 * kOneShotBlockBytes;
// A slot holds a tensor until it is read: 4 bytes of data and then a flag of 4 bytes, repeatedly.
inline constexpr int64_t kPieceOfSlotBytes = 2 * kPeerAccessBytes, kSlotBytes = 2 * kOneShotBytes;

struct PeerControl {
  int rank = 0, size = 1;
  // By rank: flags [kMaxPeerBlocks][kMaxPeers]; rank r writes those with r as second index.
  uint32_t* flags[kMaxPeers] = {};
  // By rank: slots [2][size][kSlotBytes]; rank r writes those with r as second index. The two sets are used
  // alternately, since a rank may be one exchange ahead.
  std::byte* slots[kMaxPeers] = {};
  uint32_t* epochs =
      nullptr;  // by block, this rank's own: its meetings with its peers so far, the value of flags
  const volatile int32_t* has_failed = nullptr;  // pinned; a nonzero value ends all waits
};

// The addresses of one tensor on all ranks, as this rank accesses them.
struct PeerTensor {
  const void* from[kMaxPeers] = {};
  void* to[kMaxPeers] = {};
};

// The tensors of one kernel, as many as fit into its arguments.
struct PeerTensors {
  static constexpr int kMaxTensors = 24;
  PeerTensor at[kMaxTensors];
  int64_t counts[kMaxTensors] = {};  // elements of each
  int count = 0;

  void add(const PeerTensor& tensor, int64_t elements) { at[count] = tensor, counts[count++] = elements; }
};

}  // namespace genesis::cuda
