// Implements the operator % of Python's str, which Jinja's filter `format` uses: "%d of %s" % (3, "all").
#pragma once

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// Formats `arguments`: a tuple, a mapping for %(name)s, or a single value. Throws Error if they do not fit the format.
Value percent_format(Budget& budget, const Value& format, const Value& arguments);

}  // namespace genesis::jinja
