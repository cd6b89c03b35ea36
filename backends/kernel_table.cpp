#include "backends/kernel_table.h"

#include "backends/implementation_list.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

std::string reason_against(const KernelImpl& implementation, const KernelQuery& query) {
  if (implementation.can_run)
    if (auto why_not = implementation.can_run(query)) return *why_not;
  return implementation.why_not_here ? implementation.why_not_here().value_or("") : "";
}

// Returns the first row that runs the node, or null; calls on_declined(row, reason) for each row before it.
template <class OnDeclined>
const KernelImpl* first_to_run(std::span<const KernelImpl> implementations, const KernelQuery& query,
                               const OnDeclined& on_declined) {
  const auto reason = [&](const KernelImpl& implementation) { return reason_against(implementation, query); };
  return first_of(query.op.name(), implementations, query.disabled, reason, on_declined);
}

}  // namespace

const KernelImpl& select_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  std::string reasons;
  const KernelImpl* found =
      first_to_run(implementations, query, [&](const KernelImpl& implementation, const std::string& why) {
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", implementation.name, why);
      });
  if (!found)
    fail("no kernel runs op '{}': {}", query.op.name(), reasons.empty() ? "the device has none" : reasons);
  return *found;
}

KernelTable::KernelTable(std::initializer_list<std::span<const OpKernel>> lists) {
  for (const auto& rows : lists) {
    std::string_view before;
    for (const OpKernel& row : rows) {
      GENESIS_ASSERT(row.op == before || !table_.contains(row.op));
      before = row.op;
      table_[before].push_back(row.implementation);
    }
  }
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
  const KernelImpl* found =
      first_to_run(implementations, query, [](const KernelImpl&, const std::string&) {});
  return found && !found->decomposed;
}

int64_t scratch_bytes(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  const KernelImpl& kernel = select_kernel(implementations, query);
  return kernel.scratch_bytes ? kernel.scratch_bytes(query) : 0;
}

KernelChoice choose_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query) {
  KernelChoice choice;
  const auto name_of = [&](const KernelImpl& implementation) {
    return name_of_implementation(query.op.name(), implementation.name);
  };
  const KernelImpl* found =
      first_to_run(implementations, query, [&](const KernelImpl& implementation, std::string why) {
        choice.declined.push_back({name_of(implementation), std::move(why)});
      });
  if (!found) return choice;
  choice.name = name_of(*found);
  if (!found->choose_inner) return choice;
  const KernelChoice inner = found->choose_inner(query);
  if (!inner.name.empty()) choice.name = inner.name;
  choice.decided_later = inner.decided_later;
  choice.declined.insert(choice.declined.end(), inner.declined.begin(), inner.declined.end());
  return choice;
}

std::vector<std::string> KernelTable::names() const {
  std::vector<std::string> names;
  for (const auto& [op, implementations] : table_)
    for (const KernelImpl& implementation : implementations)
      names.push_back(name_of_implementation(op, implementation.name));
  return names;
}

}  // namespace genesis
