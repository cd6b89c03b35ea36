// Ranks with a GPU each, which exchange data over NCCL. libnccl.so.2 is opened at run time.
#pragma once

#include <memory>
#include <string>

#include "backends/rank_link.h"

namespace genesis::cuda {

// Which of the ranks this process is, and where it computes.
struct GpuRank {
  int rank = 0, size = 1;
  int device = 0;       // number of the CUDA device
  std::string host;     // for messages
  std::string address;  // "HOST:PORT" where rank 0 can be reached, for ranks that have no other link
  bool is_one_host =
      false;  // all ranks are on this host: nothing but the loopback is used besides GPUs' own ways
};

// How many GPUs this process sees; 0 without a driver.
int count_visible_gpus();

// Joins the ranks. `host_link` is how they exchange texts until they have joined and from then on, null where only NCCL
// connects them. Throws Error where NCCL is missing, where two ranks have one GPU, or the ranks cannot be joined.
std::unique_ptr<RankLink> join_gpu_ranks(const GpuRank& self, const RankLimits& limits,
                                         std::unique_ptr<RankLink> host_link);

}  // namespace genesis::cuda
