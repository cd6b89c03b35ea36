#include "executor/cuda/cuda_inspect.h"

#include "backends/cuda/runtime/find_nonfinite.h"

namespace genesis {

using cuda::check;

CudaInspector::HostCopies CudaInspector::host_copies(const std::vector<TensorView>& views) const {
  HostCopies copies;
  for (const TensorView& view : views) {
    copies.memory.emplace_back(static_cast<size_t>(view.bytes()));
    if (view.bytes() > 0)
      check(cudaMemcpyAsync(copies.memory.back().data(), view.data, static_cast<size_t>(view.bytes()),
                            cudaMemcpyDeviceToHost, stream_),
            "reading a step's data");
    copies.views.push_back(view);
    copies.views.back().data = copies.memory.back().data();
  }
  cuda::wait_for(stream_, "running a step");
  return copies;
}

std::optional<std::pair<size_t, Nonfinite>> CudaInspector::first_bad(const std::vector<TensorView>& views) {
  std::vector<uint64_t> firsts(views.size());
  const auto bytes = static_cast<int64_t>(firsts.size() * sizeof(uint64_t));
  if (bytes > first_bytes_) firsts_ = cuda::allocate(device_, first_bytes_ = bytes);
  auto* on_device = reinterpret_cast<uint64_t*>(firsts_.get());
  for (size_t i = 0; i < views.size(); ++i) cuda::find_nonfinite(stream_, views[i], on_device + i);
  check(cudaGetLastError(), "looking for values that are not finite");
  if (bytes > 0)
    check(cudaMemcpyAsync(firsts.data(), on_device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                          stream_),
          "looking for values that are not finite");
  cuda::wait_for(stream_, "running a step");
  for (size_t i = 0; i < firsts.size(); ++i)
    if (firsts[i] != cuda::kAllFinite) return std::pair{i, element(views[i], firsts[i])};
  return std::nullopt;
}

Nonfinite CudaInspector::element(const TensorView& view, uint64_t index) const {
  TensorView one = view;
  one.rank = 0;
  one.data = view.as<std::byte>() + index * size_of(view.dtype);
  const HostCopies copy = host_copies({one});
  return {static_cast<int64_t>(index), first_nonfinite(copy.views[0])->is_nan};
}

}  // namespace genesis
