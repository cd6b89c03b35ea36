// The subcommands of genesis-run for models that read texts and write none.
#pragma once

#include "tools/common/tool.h"

namespace genesis::tools {

void add_embed(Command& app);
void add_rerank(Command& app);

}  // namespace genesis::tools
