// The subcommands of genesis-build. Each has flags of its own.
#pragma once

#include "tools/common/command.h"

namespace genesis::tools {

void add_tokenizer(Command& app);

}  // namespace genesis::tools
