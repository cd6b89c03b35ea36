#include "executor/runtime/build_parts.h"

#include "backends/cpu/gemm/onednn.h"

namespace genesis {

std::vector<std::string> missing_parts() {
  std::vector<std::string> parts;
  if (std::string why = why_no_cuda_device(); !why.empty()) parts.push_back(why);
  if (std::string why = cpu::onednn::why_missing(); !why.empty())
    parts.push_back(why + ", and bf16 products take the matrix units (AMX) of CPUs that have them");
  return parts;
}

}  // namespace genesis
