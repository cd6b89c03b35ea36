#include "backends/kernel.h"

#include "backends/kernel_table.h"
#include "schema/core/error.h"

namespace genesis {

TensorView view_of(const TensorType& type, void* data) {
  TensorView view{.data = data, .dtype = type.dtype, .rank = type.shape.rank(), .dims = {}};
  for (int i = 0; i < view.rank; ++i) view.dims[static_cast<size_t>(i)] = type.shape[i].value();
  return view;
}

namespace {

std::optional<std::string> reason_against(const KernelImpl& implementation, const KernelQuery& query) {
  if (!is_allowed(query.disabled, query.op.name(), implementation.name)) return "switched off";
  return implementation.can_run ? implementation.can_run(query) : std::nullopt;
}

std::string full_name(std::string_view family, std::string_view way) {
  return fmt::format("{}.{}", family, way);
}

}  // namespace

const KernelImpl& select_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  std::string reasons;
  for (const KernelImpl& implementation : implementations) {
    const auto why_not = reason_against(implementation, query);
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

bool is_native(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  for (const KernelImpl& implementation : implementations)
    if (!reason_against(implementation, query)) return !implementation.in_parts;
  return false;
}

int64_t scratch_bytes(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  const KernelImpl& kernel = select_kernel(implementations, query);
  return kernel.scratch_bytes ? kernel.scratch_bytes(query) : 0;
}

KernelChoice choose_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  KernelChoice choice;
  for (const KernelImpl& implementation : implementations) {
    const std::string name = full_name(query.op.name(), implementation.name);
    if (auto reason = reason_against(implementation, query)) {
      choice.declined.push_back({name, std::move(*reason)});
      continue;
    }
    choice.name = name;
    if (!implementation.choose_inner) return choice;
    KernelChoice inner = implementation.choose_inner(query);
    if (!inner.name.empty()) choice.name = inner.name;
    choice.declined.insert(choice.declined.end(), inner.declined.begin(), inner.declined.end());
    return choice;
  }
  return choice;
}

std::vector<std::string> KernelTable::names() const {
  std::vector<std::string> names;
  for (const auto& [op, implementations] : table_)
    for (const KernelImpl& implementation : implementations)
      names.push_back(full_name(op, implementation.name));
  return names;
}

}  // namespace genesis
