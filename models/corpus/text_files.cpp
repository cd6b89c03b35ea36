#include "models/corpus/text_files.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "schema/core/error.h"
#include "schema/core/parallel.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::corpus {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMappedFiles = 256;              // mapped at once, far below the limit of open files
constexpr size_t kMappedBytes = size_t{1} << 30;  // mapped at once, unless a single file is larger
constexpr size_t kLookedAt = 64 << 10;            // bytes of a file that are searched for a NUL

bool is_text_file(const fs::directory_entry& entry) {
  const std::string kind = file_ending(entry.path());
  return entry.is_regular_file() && (kind == ".txt" || kind == ".md" || is_json_lines(entry.path()));
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error); !error && at != fs::end(at);
       at.increment(error))
    if (is_text_file(*at)) files.push_back(at->path());
  if (error) fail("cannot list '{}': {}", folder.string(), error.message());
  if (files.empty()) fail("there is no .txt, .md or .jsonl file below '{}'", folder.string());
  std::ranges::sort(files);
  return files;
}

// The first bytes of a kind of file that is not text, with advice for the error message.
struct Beginning {
  std::string_view bytes, kind, advice;
};

constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kRecode = "write it as UTF-8, as with `iconv -f UTF-16 -t UTF-8`";
constexpr std::string_view kName = "name a file of text";
constexpr Beginning kBeginnings[] = {
    {"\x1f\x8b", "a file of gzip", kUnpack},
    {"PK\x03\x04", "a file of zip", kUnpack},
    {"\x28\xb5\x2f\xfd", "a file of zstd", kUnpack},
    {"\xfd"
     "7zXZ",
     "a file of xz", kUnpack},
    {"\xff\xfe", "text in UTF-16", kRecode},
    {"\xfe\xff", "text in UTF-16", kRecode},
    {"\x89"
     "GENESIS",
     "a model of Genesis", kName},
};

uint64_t bytes_of(const std::vector<fs::path>& files) {
  uint64_t bytes = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    if (!error) bytes += size;  // an unreadable file is reported when it is opened
  }
  return bytes;
}

}  // namespace

std::vector<fs::path> text_files(const std::vector<std::string>& names) {
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    std::error_code error;
    const fs::file_status status = fs::status(name, error);
    if (!fs::exists(status)) fail("cannot read '{}': it is not there", name);
    if (!fs::is_directory(status)) {
      files.push_back(name);
      continue;
    }
    const std::vector<fs::path> below = files_below(name);
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

void check_is_text(const fs::path& path, std::string_view file) {
  for (const Beginning& no_text : kBeginnings)
    if (file.starts_with(no_text.bytes))
      fail("'{}' is no text: from byte 0 on it is {}: {}", path.string(), no_text.kind, no_text.advice);
  if (const size_t at = file.substr(0, kLookedAt).find('\0'); at != std::string_view::npos)
    fail("'{}' is no text: byte {} is NUL, expected UTF-8: {}", path.string(), at, kName);
}

std::vector<Chunk> chunks_of_lines(const fs::path& path, std::string_view file, size_t bytes) {
  check_is_text(path, file);
  std::vector<Chunk> chunks;
  for (size_t at = 0; at < file.size(); at = chunks.back().end) {
    const size_t last = at + bytes < file.size() ? file.find('\n', at + bytes - 1) : std::string_view::npos;
    chunks.push_back({path, file, at, last == std::string_view::npos ? file.size() : last + 1});
  }
  return chunks;
}

void for_each_chunk(const std::vector<fs::path>& files, size_t bytes,
                    const std::function<void(const Chunk&)>& visit,
                    const std::function<void(uint64_t, uint64_t)>& on_bytes) {
  const uint64_t total = bytes_of(files);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<uint64_t> done = 0;
  for (auto file = files.begin(); file != files.end();) {
    std::vector<std::shared_ptr<const MappedFile>> mapped;
    std::vector<Chunk> chunks;
    for (size_t size = 0; file != files.end() && mapped.size() < kMappedFiles && size < kMappedBytes;
         ++file) {
      mapped.push_back(MappedFile::open(*file));
      const auto text = mapped.back()->bytes();
      size += text.size();
      const auto more =
          chunks_of_lines(*file, {reinterpret_cast<const char*>(text.data()), text.size()}, bytes);
      chunks.insert(chunks.end(), more.begin(), more.end());
    }
    in_parallel(static_cast<int64_t>(chunks.size()), 1, [&](int64_t first, int64_t) {
      const Chunk& chunk = chunks[static_cast<size_t>(first)];
      visit(chunk);
      done += chunk.text().size();
      if (std::this_thread::get_id() == caller) on_bytes(done, total);
    });
  }
}

}  // namespace genesis::corpus
