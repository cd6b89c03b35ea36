// What a name that does not exist may have been meant to be; for error messages.
#pragma once

#include <string>
#include <vector>

namespace genesis {

class Model;

// Up to `most` of `names`, the nearest by edits (insertions, deletions, replacements) first, as a list for a
// message: "fc.weight, fc.bias". Names that need more edits than half of `name` are left out; empty when all
// are.
std::string near_names(const std::string& name, const std::vector<std::string>& names, size_t most = 3);

// Throws Error: the model has no state `name`, and which of its states it may have been meant to be.
[[noreturn]] void fail_no_state(const Model& model, const std::string& name);

}  // namespace genesis
