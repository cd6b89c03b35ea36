// Describes the sizes that a measurement was made with.
#pragma once

#include <fmt/core.h>

#include <string>

#include "schema/graph/graph.h"
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

}  // namespace genesis::tools
