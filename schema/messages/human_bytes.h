// Formats numbers of bytes for people: in errors and in the output of tools. JSON output has plain numbers.
#pragma once

#include <concepts>
#include <string>

namespace genesis {

// Returns "0 B", "1023 B", "1.00 KiB", "1.27 TiB", up to EiB; "-1.00 KiB".
std::string human_bytes(double bytes);
std::string human_bytes(std::integral auto bytes) { return human_bytes(static_cast<double>(bytes)); }

}  // namespace genesis
