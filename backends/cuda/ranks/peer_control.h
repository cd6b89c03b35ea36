// Memory through which kernels of GPUs of one host meet: each rank has a piece, mapped by all others. What kernels that
// work in other ranks' memory need to know.
#pragma once

#include <cstdint>

namespace genesis::cuda {

inline constexpr int kMaxPeers = 8;         // ranks of a group that reach each other's memory
inline constexpr int kMaxPeerBlocks = 128;  // of a kernel that meets its peers
inline constexpr int kPeerThreads = 512;    // of each block
inline constexpr int64_t kPeerAccessBytes = 16;
inline constexpr int64_t kOneShotBlockBytes = kPeerThreads * kPeerAccessBytes;
// A tensor that start_one_shot() takes.
inline constexpr int64_t kOneShotBytes = 64 * kOneShotBlockBytes;
// Where it lies until it is read: each 4 bytes of it with a flag of 4 bytes.
inline constexpr int64_t kPieceOfSlotBytes = 2 * kPeerAccessBytes, kSlotBytes = 2 * kOneShotBytes;

struct PeerControl {
  int rank = 0, size = 1;
  // By rank: flags [kMaxPeerBlocks][kMaxPeers], of which the rank in the second place writes its own.
  uint32_t* flags[kMaxPeers] = {};
  // By rank: slots [2][size][kSlotBytes], of which that of each writer is written by it; two, taken in turn, since a
  // rank may be one exchange ahead.
  std::byte* slots[kMaxPeers] = {};
  uint32_t* epochs =
      nullptr;  // by block: how often it has met its peers, which is what flags say; this rank's own
  const volatile int32_t* has_failed = nullptr;  // pinned: not 0 ends all waits
};

// One tensor by rank, as this rank sees it.
struct PeerTensor {
  const void* from[kMaxPeers] = {};
  void* to[kMaxPeers] = {};
};

// Tensors that one kernel takes, as many as its arguments have room for.
struct PeerTensors {
  static constexpr int kMaxTensors = 24;
  PeerTensor at[kMaxTensors];
  int64_t counts[kMaxTensors] = {};  // of elements, each
  int count = 0;

  void add(const PeerTensor& tensor, int64_t elements) { at[count] = tensor, counts[count++] = elements; }
};

}  // namespace genesis::cuda
