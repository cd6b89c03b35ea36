// What was costly to make, kept in a file of the cache folder: a hash of the bytes, then the bytes. A file
// that does not fit its hash is as good as none. Used for compiled kernels (nvrtc.cpp) and cuDNN's plans
// (cudnn_graph.cpp).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace genesis::cuda {

std::optional<std::string> read_kept(const std::filesystem::path& path);
// A disk that refuses costs time at the next start, nothing else.
void keep(const std::filesystem::path& path, const std::string& bytes);

std::string hash_text(const std::string& text);  // 32 letters and digits

}  // namespace genesis::cuda
