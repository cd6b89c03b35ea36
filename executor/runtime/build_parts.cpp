#include "executor/runtime/build_parts.h"

#include "backends/mpi/mpi_ranks.h"

namespace genesis {

std::vector<std::string> missing_parts() {
  std::vector<std::string> parts;
  if (std::string why = why_no_cuda_device(); !why.empty()) parts.push_back(why);
  if (std::string why = mpi::why_missing(); !why.empty()) parts.push_back(why + "; ranks on CPUs need it");
  return parts;
}

}  // namespace genesis
