// genesis-opt --check: what entry points need on a device or on the ranks of a mesh. The devices need not exist here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/graph/model.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct CheckFlags {
  std::string device, mesh, chip, links;
  std::vector<std::string> sizes;
  int zero = 0;

  void add_to(Command& app);
};

struct CheckOptions {
  std::vector<std::string> disable;
  std::optional<int64_t> memory_budget;
  Output out;
};

// Reports whether every node has a kernel, how much memory a run takes, what each rank keeps and sends, and how long
// a run would take on a known chip.
void check_entries(const Model& model, const std::vector<std::string>& entries, const CheckFlags& flags,
                   const CheckOptions& options);

}  // namespace genesis::tools
