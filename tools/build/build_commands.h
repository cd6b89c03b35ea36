// What genesis-build makes besides models: commands with flags of their own.
#pragma once

#include <CLI/CLI.hpp>

namespace genesis::tools {

void add_tokenizer(CLI::App& app);

}  // namespace genesis::tools
