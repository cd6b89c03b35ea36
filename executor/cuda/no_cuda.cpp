// Replaces the CUDA device in a build without CUDA: every function says that there is none.
#include "backends/cuda/ranks/gpu_ranks.h"
#include "executor/runtime/device.h"
#include "executor/runtime/missing_features.h"
#include "executor/runtime/page_mapper.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

[[noreturn]] void refuse(int index) {
  fail("no device 'cuda:{}': {}, or run with --device cpu", index, why_no_cuda_device());
}

}  // namespace

std::string why_no_cuda_device() {
  return "this build has no CUDA; install the CUDA toolkit (nvcc) and configure with -Dcuda=enabled";
}
std::shared_ptr<Device> open_cuda_device(int index) { refuse(index); }
std::shared_ptr<PageMapper> open_cuda_page_mapper(int index, void*) { refuse(index); }
Target cuda_target(int index) { refuse(index); }

int cuda::count_visible_gpus() { return 0; }

std::unique_ptr<RankLink> cuda::join_gpu_ranks(const GpuRank& self, const RankLimits&,
                                               std::unique_ptr<RankLink>) {
  refuse(self.device);
}

}  // namespace genesis
