// Checks, before work that may take hours, that a command will be able to write its output.
#pragma once

#include <string>

namespace genesis::tools {

// Like check_can_write() in tool.h, for a file to which lines are appended. It may be a device or a pipe. An empty
// path means that nothing is written.
void check_can_append(const std::string& path);

// Like check_can_write() for a folder. The folder and its parents need not exist: they will be created.
void check_can_make_folder(const std::string& path);

}  // namespace genesis::tools
