// Sizes in an exported program are expressions of sympy, written as srepr() does: "Mul(Integer(2), Symbol('s77', integer=True))".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "schema/core/dim.h"

namespace genesis::models::pt2 {

// Returns the expression as a Dim, with symbols renamed by `names`; nothing for functions that Dim does not have, such as a
// quotient by a size that is not exact. Throws Error if the text is no expression.
std::optional<Dim> parse_size(std::string_view text, const std::map<std::string, std::string>& names);

}  // namespace genesis::models::pt2
