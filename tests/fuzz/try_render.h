// Does everything with an untrusted chat template that a tool may do. A damaged one must end in genesis::Error; any
// other exception, crash or sanitizer report is a finding.
#pragma once

#include <string>

namespace genesis::testing {

// Returns true if it was parsed and rendered several kinds of conversations within small limits.
bool try_render(const std::string& source);

}  // namespace genesis::testing
