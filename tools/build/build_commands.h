// What genesis-build makes besides models: commands with flags of their own.
#pragma once

#include "tools/common/command.h"

namespace genesis::tools {

void add_tokenizer(Command& app);

}  // namespace genesis::tools
