#include "backends/cuda/gemm/lt/tuning_file.h"

#include <fstream>
#include <span>

#include "schema/core/error.h"
#include "schema/file/format/hash.h"
#include "schema/file/io/atomic_write.h"

namespace genesis::cuda {
namespace {

std::string checksum(const std::string& text) {
  return file::hash_of(std::as_bytes(std::span(text.data(), text.size()))).to_string();
}

}  // namespace

TuningFile::TuningFile(std::optional<std::filesystem::path> path) : path_(std::move(path)) { read(); }

std::optional<std::string> TuningFile::find(const std::string& key) const {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return std::nullopt;
  return found->second;
}

void TuningFile::add(const std::string& key, const std::string& value) {
  read();
  lines_[key] = value;
  write();
}

// Each line is: checksum \t key \t value
void TuningFile::read() {
  if (!path_) return;
  std::ifstream in(*path_);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (line.substr(0, first) != checksum(line.substr(first + 1))) continue;
    lines_[line.substr(first + 1, second - first - 1)] = line.substr(second + 1);
  }
}

void TuningFile::write() const {
  if (!path_) return;
  std::string text;
  for (const auto& [key, value] : lines_) {
    const std::string entry = key + '\t' + value;
    text += checksum(entry) + '\t' + entry + '\n';
  }
  try {
    write_file_atomically(*path_, text, LinkAtName::kReplaced);
  } catch (const Error&) {
  }
}

}  // namespace genesis::cuda
