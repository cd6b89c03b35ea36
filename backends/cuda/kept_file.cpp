#include "backends/cuda/kept_file.h"

#include <fstream>
#include <span>
#include <sstream>

#include "schema/error.h"
#include "schema/file/atomic_write.h"
#include "schema/file/hash.h"

namespace genesis::cuda {

std::string hash_text(const std::string& text) {
  return file::hash_of(std::as_bytes(std::span(text))).to_string();
}

std::optional<std::string> read_kept(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  constexpr size_t kDigits = 32;
  if (text.size() <= kDigits) return std::nullopt;
  std::string bytes = text.substr(kDigits);
  if (hash_text(bytes) != text.substr(0, kDigits)) return std::nullopt;
  return bytes;
}

void keep(const std::filesystem::path& path, const std::string& bytes) {
  try {
    write_file_atomically(path, hash_text(bytes) + bytes);
  } catch (const Error&) {
  }
}

}  // namespace genesis::cuda
