// Translates words of other programs (PyTorch, transformers, llama.cpp, vLLM) into the options and commands of these
// tools, for error messages about the command line.
#pragma once

#include <string>
#include <vector>

namespace genesis::tools {

// Returns ": did you mean '--prompt'?", or a sentence that begins with ": ", for an option that `tool` ("genesis-run
// train") does not have. Words with the same meaning are tried first, then similarly spelled ones among `known`.
// Empty if nothing fits.
std::string meant_option(const std::string& tool, const std::string& option,
                         const std::vector<std::string>& known);
// Does the same for a command of `tool`.
std::string meant_command(const std::string& tool, const std::string& command,
                          const std::vector<std::string>& known);
// Returns what to do instead of a command of another program, such as "serve" or "help"; empty for other words.
std::string advice_on_command(const std::string& tool, const std::string& word);
// Returns " (did you mean 'bf16'?)" for "bfloat16" or a word spelled like one of the `known` values.
std::string meant_value(const std::string& value, const std::vector<std::string>& known);

}  // namespace genesis::tools
