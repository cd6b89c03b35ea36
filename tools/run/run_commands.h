// The subcommands of genesis-run. Each file adds the flags of one command and does its work.
#pragma once

#include "tools/common/tool.h"

namespace genesis::tools {

void add_info(Command& app);
void add_infer(Command& app);
void add_train(Command& app);
void add_generate(Command& app);
void add_chat(Command& app);
void add_check_op(Command& app);
void add_eval(Command& app);
void add_bench(Command& app);
void add_profile(Command& app);
void add_compare(Command& app);
void add_baseline(Command& app);
void add_tokenize(Command& app);
void add_export(Command& app);
void add_serve(Command& app);

}  // namespace genesis::tools
