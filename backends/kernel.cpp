#include "backends/kernel.h"

#include "backends/kernel_table.h"
#include "schema/core/error.h"

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

void KernelTable::add(std::span<const OpKernels> rows) {
  for (const OpKernels& row : rows) GENESIS_ASSERT(table_.emplace(row.op, row.implementations).second);
}

std::span<const KernelImpl> KernelTable::find(std::string_view op) const {
  const auto at = table_.find(op);
  return at == table_.end() ? std::span<const KernelImpl>{} : at->second;
}

std::optional<std::string> why_not(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  try {
    select_kernel(implementations, query);
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

int64_t scratch_bytes(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  const KernelImpl& kernel = select_kernel(implementations, query);
  return kernel.scratch_bytes ? kernel.scratch_bytes(query) : 0;
}

}  // namespace genesis
