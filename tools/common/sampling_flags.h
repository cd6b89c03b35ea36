// Flags that say how a token is chosen. Used by `genesis-run generate` and `chat`.
#pragma once

#include "models/text/generate_options.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// --temperature and its kin, with what stands in `options` as defaults.
void add_sampling(CLI::App& command, text::GenerateOptions& options);
// Into `options`, what was given of them on the command line.
void take_given_sampling(const CLI::App& command, const text::GenerateOptions& given,
                         text::GenerateOptions& options);
// Throws UsageError where --temperature 0 makes others of them do nothing.
void check_sampling(const CLI::App& command, const text::GenerateOptions& options);

}  // namespace genesis::tools
