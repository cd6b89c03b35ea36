// The operator % of Python's str, and Jinja's filter `format`, which uses it: "%d of %s" % (3, "all").
#pragma once

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// `arguments`: a tuple, a mapping for %(name)s, or the only value. Throws Error where they do not fit the format.
Value percent_format(Budget& budget, const Value& format, const Value& arguments);

}  // namespace genesis::jinja
