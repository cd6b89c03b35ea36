// Flags that say how a token is chosen. Used by `genesis-run generate` and `chat`.
#pragma once

#include "models/text/generate_options.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// --temperature and its kin, with what stands in `options` as defaults.
void add_sampling(Command& command, text::GenerateOptions& options);
// Into `options`, what was given of them on the command line.
void take_given_sampling(const Command& command, const text::GenerateOptions& given,
                         text::GenerateOptions& options);
// --prefill-chunk, which check_prefill_chunk() holds to be a power of two.
void add_prefill_chunk(Command& command, int64_t& tokens);
void check_prefill_chunk(int64_t tokens);
// --context; 0 where it is not given.
void add_context(Command& command, int64_t& positions);
// Throws UsageError where --temperature 0 makes others of them do nothing.
void check_sampling(const Command& command, const text::GenerateOptions& options);

}  // namespace genesis::tools
