// Prints the lists of genesis-opt: passes and ops.
#pragma once

#include "tools/common/tool.h"

namespace genesis::tools {

void list_passes(const Output& out);
void list_ops(const Output& out);  // prints docs/ops.md; a test checks that file against this output

}  // namespace genesis::tools
