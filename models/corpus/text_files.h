// Finds the text files that a command line names, and splits texts of any size into chunks for many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/file/io/file_ending.h"

namespace genesis::corpus {

// Returns files as they are named, and for each folder the .txt, .md and .jsonl (or .ndjson) files below it, sorted by name.
// Throws Error for a path that does not exist and for a folder without such files.
std::vector<std::filesystem::path> text_files(const std::vector<std::string>& names);

// A range of a mapped file, which one thread processes at a time.
struct Chunk {
  std::filesystem::path path;
  std::string_view file;  // the whole file
  size_t begin = 0, end = 0;

  std::string_view text() const { return file.substr(begin, end - begin); }
  bool is_jsonl() const { return is_json_lines(path); }
};

// Throws Error that names the first wrong byte if a file is not text: it begins like a compressed file or a model, or has a NUL
// in its first 64 KiB. Other invalid UTF-8 is left to tokenizers, which replace it by U+FFFD.
void check_is_text(const std::filesystem::path& path, std::string_view file);

// Splits a file into chunks that end behind a line feed. Every chunk but the last has at least `bytes` bytes. Throws Error as
// check_is_text does.
std::vector<Chunk> chunks_of_lines(const std::filesystem::path& path, std::string_view file, size_t bytes);

// Calls `visit` with every chunk of whole lines of every file, on all cores, in any order and concurrently. At most a few hundred
// files are mapped at once. Calls `on_bytes(done, total)` on the calling thread from time to time.
void for_each_chunk(const std::vector<std::filesystem::path>& files, size_t bytes,
                    const std::function<void(const Chunk&)>& visit,
                    const std::function<void(uint64_t, uint64_t)>& on_bytes);

// Calls `on_line` with each line, including its line feed.
template <class OnLine>
void for_each_line(std::string_view text, const OnLine& on_line) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    on_line(line);
    text.remove_prefix(line.size());
  }
}

}  // namespace genesis::corpus
