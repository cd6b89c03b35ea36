// An owned descriptor of cuDNN's graphs.
#pragma once

#include <memory>

namespace genesis::cuda {

struct DestroyCudnn {
  void operator()(void* descriptor) const;
};
using CudnnDescriptor = std::unique_ptr<void, DestroyCudnn>;

}  // namespace genesis::cuda
