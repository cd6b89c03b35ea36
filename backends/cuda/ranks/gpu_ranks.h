// Joins ranks that have a GPU each and exchange data over NCCL. libnccl.so.2 is opened at run time.
#pragma once

#include <memory>
#include <string>

#include "backends/rank_link.h"

namespace genesis::cuda {

// This process's rank and its GPU.
struct GpuRank {
  int rank = 0, size = 1;
  int device = 0;            // number of the CUDA device
  std::string host;          // for messages
  std::string address;       // "HOST:PORT" of rank 0, for ranks that have no other link
  bool is_one_host = false;  // all ranks are on this host: the only network used is the loopback
};

// Returns how many GPUs this process sees; 0 without a driver.
int count_visible_gpus();

// Joins the ranks. `host_link` exchanges texts between ranks before and after they have joined; null if NCCL is their
// only connection. Throws Error if NCCL is missing, if two ranks share a GPU, or if the ranks cannot be joined.
std::unique_ptr<RankLink> join_gpu_ranks(const GpuRank& self, const RankLimits& limits,
                                         std::unique_ptr<RankLink> host_link);

}  // namespace genesis::cuda
