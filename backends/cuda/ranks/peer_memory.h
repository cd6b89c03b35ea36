// Memory of the other GPUs of this host, as this process sees it: what another process has allocated is mapped here (CUDA
// IPC), and is read and written over NVLink or PCIe.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/ranks/rank_texts.h"

namespace genesis::cuda {

class PeerMemory {
 public:
  // `group` outlives it.
  PeerMemory(RankGroup& group, int device) : group_(group), texts_(group, device) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // What each rank named, in its order.
  struct Seen {
    std::vector<std::byte*> addresses;  // as this process reaches it; null: that rank cannot lend it
    std::string word;                   // what it said beside
  };
  // All ranks of the group call it, and none returns before all have mapped what they were lent. Mappings of what a rank has
  // freed since the last call are closed: its memory is only then free. Throws the same Error on all ranks where one of them
  // cannot map another's memory.
  std::vector<Seen> exchange(std::span<std::byte* const> mine, const std::string& word);

 private:
  struct Lent {
    std::byte* base;
    cudaIpcMemHandle_t handle;
  };
  using Handle = std::string;  // its bytes

  void forget_what_was_freed();
  // Index in lent_; -1: memory of another kind.
  int32_t lend(std::byte* memory, int64_t& offset);
  std::string describe(std::span<std::byte* const> mine);
  std::byte* open(int rank, const Handle& handle);
  Seen read(int rank, std::span<std::byte* const> mine, const std::string& text);

  RankGroup& group_;
  RankTexts texts_;
  std::vector<Lent> lent_;
  std::map<std::pair<int, Handle>, std::byte*> mapped_;  // by rank
};

}  // namespace genesis::cuda
