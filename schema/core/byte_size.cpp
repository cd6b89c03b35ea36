#include "schema/core/byte_size.h"

#include <algorithm>
#include <map>
#include <optional>

#include "schema/core/parse_number.h"
#include "schema/core/setting_error.h"

namespace genesis {

int64_t bytes_or_fail(std::string_view name, std::string_view text) {
  static const std::map<std::string_view, double> kUnits = {
      {"", 1},         {"B", 1},        {"KB", 1e3},   {"MB", 1e6},     {"GB", 1e9},
      {"K", 0x1p10},   {"KiB", 0x1p10}, {"M", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},
      {"GiB", 0x1p30}, {"TB", 1e12},    {"T", 0x1p40}, {"TiB", 0x1p40}};
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = parse_number<double>(text.substr(0, digits));
  const auto unit = kUnits.find(text.substr(digits));
  const double bytes = number && unit != kUnits.end() ? *number * unit->second : 0;
  if (!(bytes >= 1 && bytes < 0x1p62))
    fail_setting("{} {}: expected a number of bytes such as 500MB or 8GiB, less than 4 EiB", name, text);
  return static_cast<int64_t>(bytes);
}

}  // namespace genesis
