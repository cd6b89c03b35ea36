// Maps memory that other processes have allocated on the GPUs of this host (CUDA IPC); it is read and written over
// NVLink or PCIe.
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
  // `group` outlives this object.
  PeerMemory(RankGroup& group, int device) : group_(group), texts_(group, device) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // The addresses that a rank gave to exchange(), in its order.
  struct Seen {
    std::vector<std::byte*> addresses;  // valid in this process; null: that rank cannot lend it
    std::string word;                   // the rank's `word`
  };
  // All ranks of the group call it, and none returns before all have mapped what was lent to them. Closes mappings of
  // memory that its rank has freed since the last call; only then is it really free. Throws the same Error on all
  // ranks if one of them cannot map another's memory.
  std::vector<Seen> exchange(std::span<std::byte* const> mine, const std::string& word);

 private:
  struct Lent {
    std::byte* base;
    cudaIpcMemHandle_t handle;
  };
  using Handle = std::string;  // its bytes

  void forget_what_was_freed();
  // Returns an index in lent_, or -1 for memory of another kind.
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
