// Does everything with an untrusted body of a request that the server does before a model sees it: reads it, makes grammars of its
// schemas and expressions, and looks for calls of tools. Damage must end in genesis::Error; any other exception, crash or
// sanitizer report is a finding.
#pragma once

#include <string>

namespace genesis::testing {

// Returns true if all of it could be used.
bool try_request(const std::string& body);

}  // namespace genesis::testing
