// Formats counts and times for people, beside human_bytes().
#pragma once

#include <string>

namespace genesis {

std::string human_count(double count);      // "1.50 M"
std::string human_seconds(double seconds);  // "1m05s"

}  // namespace genesis
