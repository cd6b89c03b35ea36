// Matches names against patterns: `*` stands for any text, `?` for any character. Training options choose parameters by them,
// casts choose the nodes that stay in f32.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace genesis::passes {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace genesis::passes
