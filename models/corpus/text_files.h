// The text files that a command line names, and how a text of any size is cut into pieces for many threads. Used by what
// learns from text: tokenizers and language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/file/io/file_ending.h"

namespace genesis::corpus {

// Files as they are named, folders as the .txt, .md and .jsonl (or .ndjson) files below them, by name. Throws Error for what is not there
// and for a folder without any such file.
std::vector<std::filesystem::path> text_files(const std::vector<std::string>& names);

// Some of a mapped file, which one thread takes at a time.
struct Chunk {
  std::filesystem::path path;
  std::string_view file;  // all of it
  size_t begin = 0, end = 0;

  std::string_view text() const { return file.substr(begin, end - begin); }
  bool is_jsonl() const { return is_json_lines(path); }
};

// Throws Error, with the first wrong byte, for what is no text: a file that begins as a compressed one or a model does, or has
// a NUL in its first 64 KiB. Other bytes that are not UTF-8 are left to tokenizers, which make U+FFFD of them.
void check_is_text(const std::filesystem::path& path, std::string_view file);

// A file in chunks that end behind a line feed, each of at least `bytes` but for the last. Throws Error as check_is_text does.
std::vector<Chunk> chunks_of_lines(const std::filesystem::path& path, std::string_view file, size_t bytes);

// Calls `visit` with every chunk of whole lines of every file, by all cores, in any order and at the same time. Files are
// mapped, a few hundred at once at most. `on_bytes(done, total)` is called on this thread now and then.
void for_each_chunk(const std::vector<std::filesystem::path>& files, size_t bytes,
                    const std::function<void(const Chunk&)>& visit,
                    const std::function<void(uint64_t, uint64_t)>& on_bytes);

// Calls `on_line` with each line, its line feed included.
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
