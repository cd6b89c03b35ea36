// Pointers of git-lfs: the text of three lines that a clone without git-lfs leaves where a large file belongs. Used wherever a
// file is read, so that each reader says the same of them. Their format: github.com/git-lfs/git-lfs, docs/spec.md.
#pragma once

#include <filesystem>
#include <string_view>

namespace genesis {

// Throws Error with the command that gets the file itself where `contents`, all bytes of the file at `path`, are a pointer.
void check_is_no_lfs_pointer(const std::filesystem::path& path, std::string_view contents);

// The same of a file that nobody has read yet. A path that cannot be opened passes: its reader says why.
void check_is_no_lfs_pointer(const std::filesystem::path& path);

}  // namespace genesis
