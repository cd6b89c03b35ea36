// Checks the file that a command is about to replace. An output may replace a file of its own kind only, because an
// output's name is easily mistaken for an input's. Commands call these checks before the work.
#pragma once

#include <filesystem>
#include <string>

namespace genesis::tools {

// Throws Error if `path` is a non-empty file that is not a .genesis file. `option` is the option that named it: "-o".
void check_replaces_model(const std::string& option, const std::filesystem::path& path);

// Throws Error if `path` is a non-empty file that is not one conversation as /save writes it: one line of JSON with
// "messages".
void check_replaces_conversation(const std::string& option, const std::filesystem::path& path);

// Throws Error if `output` and `read` are the same file. `what` describes it: "of the data".
void check_is_not_read(const std::string& option, const std::filesystem::path& output,
                       const std::filesystem::path& read, const std::string& what);

}  // namespace genesis::tools
