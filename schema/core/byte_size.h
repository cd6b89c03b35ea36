// Parses numbers of bytes that a person wrote.
#pragma once

#include <cstdint>
#include <string_view>

namespace genesis {

// Parses "500MB", "8GiB" or a number of bytes, at least 1. `name` is that of the setting, for the SettingError of another text.
int64_t bytes_or_fail(std::string_view name, std::string_view text);

}  // namespace genesis
