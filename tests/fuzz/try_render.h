// Does with a chat template of unknown worth all that a tool may do. A damaged one must end in genesis::Error; any other
// exception, crash or sanitizer report is a finding. Used by the mutation tests and the libFuzzer target.
#pragma once

#include <string>

namespace genesis::testing {

// True when it was parsed and rendered conversations of a few kinds, within small limits.
bool try_render(const std::string& source);

}  // namespace genesis::testing
