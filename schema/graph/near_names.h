// What a name that does not exist may have been meant to be; for error messages.
#pragma once

#include <string>
#include <vector>

namespace genesis {

// Up to `most` of `names`, the nearest by edits (insertions, deletions, replacements) first, as a list for a
// message: "fc.weight, fc.bias". Names that need more edits than a third of the letters of `name` are left out;
// empty when all are.
std::string near_names(const std::string& name, const std::vector<std::string>& names, size_t most = 3);

// The one of `names` that `name` was most likely meant to be; empty when none is near. What `name` is the
// beginning of is nearer than anything else.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);
// " (did you mean 'train'?)", to stand behind a name that is none; empty when none is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& names);

}  // namespace genesis
