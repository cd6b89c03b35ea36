// The table of a device's kernels: chooses the implementation of a node, and answers the questions that a Target is asked about
// it.
#pragma once

#include <initializer_list>
#include <map>

#include "backends/kernel.h"

namespace genesis {

class KernelTable {
 public:
  // Takes lists of rows; all rows of an op are adjacent in one of them.
  explicit KernelTable(std::initializer_list<std::span<const OpKernel>> lists);
  std::span<const KernelImpl> find(std::string_view op) const;  // empty if there are none
  std::vector<std::string> names() const;                       // full names of all implementations

 private:
  std::map<std::string_view, std::vector<KernelImpl>> table_;
};

// Returns the first implementation that can run and is not switched off. Throws Error that lists why each cannot if there is
// none.
const KernelImpl& select_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query);

// Returns why no implementation runs the node; nothing if one does.
std::optional<std::string> why_not(std::span<const KernelImpl> implementations, const KernelQuery& query);
// Returns true if the node is run by an implementation other than one decomposed into kernels of other ops.
bool is_native(std::span<const KernelImpl> implementations, const KernelQuery& query);
KernelChoice choose_kernel(std::span<const KernelImpl> implementations, const KernelQuery& query);
int64_t scratch_bytes(std::span<const KernelImpl> implementations, const KernelQuery& query);

}  // namespace genesis
