// Suggests existing names for a name that does not exist, for error messages.
#pragma once

#include <string>
#include <vector>

namespace genesis {

// Returns up to `most` of `names`, the nearest by edits (insertions, deletions, replacements, swaps of neighbors) first, as a
// list for a message: "fc.weight, fc.bias". Leaves out names that need more edits than a third of the letters of `name`; empty if
// none is left.
std::string near_names(const std::string& name, const std::vector<std::string>& names, size_t most = 3);

// Returns the one of `names` that was most likely meant by `name`; empty if none is near. Names that begin with `name` come
// before all others.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);
// Returns " (did you mean 'train'?)", to append to an unknown name in a message; empty if none is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& names);

}  // namespace genesis
