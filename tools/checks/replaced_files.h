// What stands where a command is to write: it may take the place of a file of its own kind, and of no other, since an output's
// name is easily mistaken for an input's. Used before the work, by every command that writes a model or a conversation.
#pragma once

#include <filesystem>
#include <string>

namespace genesis::tools {

// Throws Error where `path` is a file with something in it that is no .genesis file. `option` is how it was named: "-o".
void check_replaces_model(const std::string& option, const std::filesystem::path& path);

// The same where it is not one conversation, as /save writes it: a line of JSON with "messages".
void check_replaces_conversation(const std::string& option, const std::filesystem::path& path);

// Throws Error where `output` is the file `read`. `what` it is: "of the data".
void check_is_not_read(const std::string& option, const std::filesystem::path& output,
                       const std::filesystem::path& read, const std::string& what);

}  // namespace genesis::tools
