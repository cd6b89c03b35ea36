#include "tests/distributed/test_ranks.h"

#include "backends/mpi/mpi_ranks.h"

namespace genesis::testing {

bool& ranks_have_gpus() {
  static bool value = false;
  return value;
}

std::unique_ptr<RankLink> join_test_ranks(const RankLimits& limits) {
  return ranks_have_gpus() ? join_staged_gpu_ranks(find_launch(), limits) : mpi::join_ranks(limits);
}

}  // namespace genesis::testing
