#pragma once

#include <string>

namespace genesis {

// Returns the name of this machine or container; "unknown" if the system does not provide one.
std::string host_name();

}  // namespace genesis
