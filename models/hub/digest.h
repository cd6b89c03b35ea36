// The digests by which a hub names the contents of files: SHA-256 of large files, and git's SHA-1 of small ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace genesis::hub {

// Return the digest of a file in lower hexadecimal digits. git_digest() is that of a git blob: SHA-1 of "blob SIZE\0" and the bytes.
// Throw Error naming the path if it cannot be read.
std::string sha256_of(const std::filesystem::path& path);
std::string git_digest_of(const std::filesystem::path& path);

}  // namespace genesis::hub
