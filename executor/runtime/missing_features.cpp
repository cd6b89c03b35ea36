#include "executor/runtime/missing_features.h"

#include "backends/mpi/mpi_ranks.h"

namespace genesis {

std::vector<std::string> missing_features() {
  std::vector<std::string> features;
  if (std::string why = why_no_cuda_device(); !why.empty()) features.push_back(why);
  if (std::string why = mpi::why_missing(); !why.empty()) features.push_back(why + "; ranks on CPUs need it");
  return features;
}

}  // namespace genesis
