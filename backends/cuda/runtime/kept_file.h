// Files in the cache folder for bytes that are expensive to make, such as compiled kernels and cuDNN's plans. A file
// has a hash of the bytes, then the bytes. A file that does not match its hash is treated as missing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace genesis::cuda {

std::optional<std::string> read_kept(const std::filesystem::path& path);
// Writes the file. An error is ignored: it only costs time at the next start.
void keep(const std::filesystem::path& path, const std::string& bytes);
// Writes the file unless it is there, and returns what is kept: processes that made different bytes at the same time all get those of
// the first. A file with the bytes `unusable` counts as missing.
std::string keep_first(const std::filesystem::path& path, const std::string& bytes,
                       const std::string& unusable = "");

std::string hash_text(const std::string& text);  // 32 letters and digits

}  // namespace genesis::cuda
