// Detects git-lfs pointers: the text of three lines that a clone without git-lfs leaves in place of a large file. Every reader of
// files uses these checks, so that all report them alike. Format: github.com/git-lfs/git-lfs, docs/spec.md.
#pragma once

#include <filesystem>
#include <string_view>

namespace genesis {

// Throws Error if `contents`, all bytes of the file at `path`, are a pointer; the message has the command that fetches the file.
void check_is_no_lfs_pointer(const std::filesystem::path& path, std::string_view contents);

// The same for a file that has not been read yet. Accepts a path that cannot be opened: its reader reports the reason.
void check_is_no_lfs_pointer(const std::filesystem::path& path);

}  // namespace genesis
