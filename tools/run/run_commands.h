// The subcommands of genesis-run; each file adds its flags and does its work.
#pragma once

#include "tools/common/tool.h"

namespace genesis::tools {

void add_info(CLI::App& app);
void add_infer(CLI::App& app);
void add_train(CLI::App& app);
void add_generate(CLI::App& app);
void add_chat(CLI::App& app);
void add_eval(CLI::App& app);
void add_bench(CLI::App& app);
void add_profile(CLI::App& app);
void add_compare(CLI::App& app);
void add_baseline(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_export(CLI::App& app);

}  // namespace genesis::tools
