// Checks the files that a job is about to write, before work that may take hours: that they can be written, and that nothing else
// is lost. An output may replace a file of its own kind only, because an output's name is easily mistaken for an input's. All
// functions throw Error that names the file.
#pragma once

#include <filesystem>
#include <string>

namespace genesis::jobs {

// Check that a file can be made at `path`; that lines can be appended to it, and it may be a device or a pipe; that a folder
// can be made, whose parents need not exist. An empty path means that nothing is written.
void check_can_write(const std::string& path);
void check_can_append(const std::string& path);
void check_can_make_folder(const std::string& path);

// Throws Error if `path` is a non-empty file that is not a .genesis file. `option` is the option that named it: "-o".
void check_replaces_model(const std::string& option, const std::filesystem::path& path);

// Throws Error if `path` is a non-empty file that is not one conversation as /save writes it: one line of JSON with
// "messages".
void check_replaces_conversation(const std::string& option, const std::filesystem::path& path);

// Throws Error if `output` and `read` are the same file. `what` describes it: "of the data".
void check_is_not_read(const std::string& option, const std::filesystem::path& output,
                       const std::filesystem::path& read, const std::string& what);

}  // namespace genesis::jobs
