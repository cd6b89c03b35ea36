// What words of other programs (PyTorch, transformers, llama.cpp, vLLM) are called here: for messages on a command line that these
// tools do not understand. Used by tools/common/usage.cpp and where an option's value is read.
#pragma once

#include <string>
#include <vector>

namespace genesis::tools {

// ": did you mean '--prompt'?", or a sentence that begins with ": ", for an option that `tool` ("genesis-run train") has not. Words
// that mean the same come first, then those of `known` that are written alike; empty where none is.
std::string meant_option(const std::string& tool, const std::string& option,
                         const std::vector<std::string>& known);
// The same for a command of `tool`.
std::string meant_command(const std::string& tool, const std::string& command,
                          const std::vector<std::string>& known);
// What to do instead of a command of another program, such as "serve" or "help"; empty where nothing is known of it.
std::string advice_on_command(const std::string& tool, const std::string& word);
// For a value that is one of `known`: " (did you mean 'bf16'?)" for "bfloat16" or a word written like one of them.
std::string meant_value(const std::string& value, const std::vector<std::string>& known);

}  // namespace genesis::tools
