// Collective ops between GPUs, in the order of the kernels' stream.
#include "backends/common/collective_kernels.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/moves/moves.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

template <class T>
struct AddTo {
  T* to;
  const T* addend;
  __device__ void operator()(int64_t i) const { to[i] = narrow<T>(widen(to[i]) + widen(addend[i])); }
};

struct Gpu {
  static constexpr bool kAdds = true;
  static void copy(const KernelContext& c, const TensorView& to, const TensorView& from) {
    copy_whole(c, to, from);
  }
  static void* stream(const KernelContext& c) { return launch_of(c).stream; }
  static bool early(const KernelContext& c) { return launch_of(c).early; }
  static void add(const KernelContext& c, const TensorView& to, const TensorView& addend) {
    dispatch_any(to.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (!std::is_same_v<T, bool>)  // bool has no sum
        for_each(c, to.numel(), AddTo<T>{to.as<T>(), addend.as<const T>()});
    });
  }
};

}  // namespace

std::span<const OpKernel> collective_kernels() { return kCollectiveKernels<Gpu>; }

}  // namespace genesis::cuda
