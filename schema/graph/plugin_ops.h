// Ops that plugins bring (executor/plugin.h). find_op() finds them behind the library's own; schema/graph/op.cpp keeps both.
#pragma once

#include <span>

namespace genesis {

struct OpDef;

// Adds ops, which stay for the rest of the process. Throws Error that names an op whose name is taken, and adds none then. Any
// thread may call this.
void add_plugin_ops(std::span<const OpDef* const> ops);

// Returns whether an op is not one of the library's, whose formulas fused kernels are made of.
bool is_plugin_op(const OpDef& op);

}  // namespace genesis
