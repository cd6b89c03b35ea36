// Makes a grammar of an untrusted description of answers and follows a few texts with it. Damage must end in genesis::Error; any other
// exception, crash or sanitizer report is a finding.
#pragma once

#include <string>

namespace genesis::testing {

enum class Description { kSchema, kRegex, kGbnf };

// Throws Error if the description is refused.
void try_grammar(Description kind, const std::string& text);

}  // namespace genesis::testing
