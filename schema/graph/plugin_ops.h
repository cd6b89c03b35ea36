// Ops that plugins bring (executor/plugin.h). find_op() finds them behind the library's own.
#pragma once

#include "schema/graph/op.h"

namespace genesis {

// Adds ops, which stay for the rest of the process. Throws Error that names an op whose name is taken, and adds none then. Any
// thread may call this.
void add_plugin_ops(std::span<const OpDef* const> ops);
const OpDef* find_plugin_op(std::string_view name);  // null if there is none

}  // namespace genesis
