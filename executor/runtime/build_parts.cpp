#include "executor/runtime/build_parts.h"

#include "backends/cpu/onednn/onednn.h"
#include "backends/mpi/mpi_ranks.h"

namespace genesis {

std::vector<std::string> missing_parts() {
  std::vector<std::string> parts;
  if (std::string why = why_no_cuda_device(); !why.empty()) parts.push_back(why);
  if (std::string why = cpu::onednn::why_missing(); !why.empty())
    parts.push_back(why + ", with which bf16 products on CPUs with matrix units (AMX) are compared");
  if (std::string why = mpi::why_missing(); !why.empty()) parts.push_back(why + "; ranks on CPUs need it");
  return parts;
}

}  // namespace genesis
