// Checks that a command will be able to write its output: ahead of the work, which may take hours. Used by every command that
// writes a file at its end.
#pragma once

#include <string>

namespace genesis::tools {

// The same as check_can_write() in tool.h for a file that lines are added to, which may be a device or a pipe. An empty path is nothing
// to write.
void check_can_append(const std::string& path);

// The same for a folder, which is made where it is missing, with the folders around it.
void check_can_make_folder(const std::string& path);

}  // namespace genesis::tools
