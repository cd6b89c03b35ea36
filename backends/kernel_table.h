// The table of a device's kernels: which way runs a node, and the questions a Target answers from it. Used by the
// kernels.cpp of each backend.
#pragma once

#include <initializer_list>
#include <map>

#include "backends/kernel.h"

namespace genesis {

class KernelTable {
 public:
  // Lists of rows; all of an op stand together in one of them.
  explicit KernelTable(std::initializer_list<std::span<const OpKernel>> lists);
  std::span<const KernelImpl> find(std::string_view op) const;  // empty when there is none
  std::vector<std::string> names() const;                       // of all ways, in full

 private:
  std::map<std::string_view, std::vector<KernelImpl>> table_;
};

// The first implementation that can run and is not switched off, or an Error that lists why each cannot.
const KernelImpl& select_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query);

// Empty: one of them runs the node.
std::optional<std::string> why_not(std::span<const KernelImpl> implementations, const KernelQuery& query);
// Whether one of them runs the node, other than decomposed into kernels of other ops.
bool is_native(std::span<const KernelImpl> implementations, const KernelQuery& query);
KernelChoice choose_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query);
int64_t scratch_bytes(std::span<const KernelImpl> implementations, const KernelQuery& query);

}  // namespace genesis
