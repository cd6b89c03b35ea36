// Describes the sizes that a measurement was made with.
#pragma once

#include <fmt/core.h>

#include <string>

#include "schema/core/error.h"
#include "schema/graph/plan.h"
#include "tools/common/printable.h"

namespace genesis::tools {

// Returns "forward with batch=1, seq=1 (--size batch=N gives others)" and a line feed; empty if there are no symbols.
inline std::string sizes_line(const std::string& entry, const Bindings& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", symbol, size);
  if (text.empty()) return "";
  return printable(fmt::format("{} with {} (--size {}=N gives others)", entry, text, sizes.begin()->first)) +
         "\n";
}

// Throws Error if there is nothing to measure, as with sizes of 0.
inline void check_has_steps(const Plan& plan, const std::string& entry) {
  if (!plan.steps.empty()) return;
  std::string text;
  for (const auto& [symbol, size] : plan.bindings)
    text += fmt::format("{} --size {}={}", text.empty() ? " with" : "", symbol, size);
  fail("entry point '{}' has nothing to run{}", entry, text);
}

}  // namespace genesis::tools
