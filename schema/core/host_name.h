#pragma once

#include <string>

namespace genesis {

// Of this machine, or container, as it calls itself; "unknown" where it does not say.
std::string host_name();

}  // namespace genesis
