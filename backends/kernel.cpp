#include "backends/kernel.h"

#include "schema/error.h"

namespace genesis {

TensorView view_of(const TensorType& type, void* data) {
  TensorView view{.data = data, .dtype = type.dtype, .rank = type.shape.rank(), .dims = {}};
  for (int i = 0; i < view.rank; ++i) view.dims[static_cast<size_t>(i)] = type.shape[i].value();
  return view;
}

const KernelImpl& select_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  std::string reasons;
  for (const KernelImpl& implementation : implementations) {
    const auto why_not = implementation.can_run ? implementation.can_run(query) : std::nullopt;
    if (!why_not) return implementation;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", implementation.name, *why_not);
  }
  fail("no kernel runs op '{}': {}", query.op.name(), reasons.empty() ? "the device has none" : reasons);
}

}  // namespace genesis
