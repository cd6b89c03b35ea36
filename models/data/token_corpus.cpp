#include "models/data/token_corpus.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "models/data/tokenize_corpus.h"
#include "schema/core/error.h"
#include "schema/file/format/hash.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/object_reader.h"
#include "schema/messages/log.h"

namespace genesis::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "corpus.json";
constexpr int kVersion = 1;  // format version of tokens on disk

fs::path default_cache() {
  const char *base = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (base && *base) return fs::path(base) / "genesis" / "tokens";
  if (home && *home) return fs::path(home) / ".cache" / "genesis" / "tokens";
  fail(
      "there is no folder to keep tokens in: neither HOME nor XDG_CACHE_HOME is set; name one with "
      "--token-cache");
}

// Returns why files cannot be created in the folder, or "" if they can. Creates the folder if possible.
std::string why_not_writable(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return error.message();
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

// A folder that is removed when the process ends.
class TemporaryFolder {
 public:
  static const TemporaryFolder& of_process() {
    static const TemporaryFolder folder;
    return folder;
  }
  ~TemporaryFolder() {
    std::error_code error;  // ignored: nobody is left to report it to
    fs::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "genesis_tokens_XXXXXX").string();
    if (!::mkdtemp(name.data()))
      fail("cannot make a folder for tokens in '{}': {}", fs::temp_directory_path().string(),
           std::strerror(errno));
    path_ = name;
  }

  fs::path path_;
};

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// Returns the facts that identify a version of a file. The status change time (ctime) counts beside the modification time
// (mtime), because cp -p, rsync -t and tar set back the mtime, but no program can set back the ctime. The inode does not count,
// because some network file systems renumber files.
json facts_of(const fs::path& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) fail("cannot read '{}': {}", path.string(), std::strerror(errno));
  return {{"path", fs::absolute(path).lexically_normal().string()},
          {"bytes", static_cast<int64_t>(facts.st_size)},
          {"changed", nanoseconds(facts.st_mtim)},
          {"status_changed", nanoseconds(facts.st_ctim)}};
}

// Waits until a further change of the files would get a later time stamp. The clock of file systems ticks every 10 ms or faster.
void wait_for_next_tick(const json& files) {
  constexpr std::chrono::milliseconds kTick{20};
  const auto now = std::chrono::system_clock::now();
  for (const json& file : files) {
    const std::chrono::system_clock::time_point changed{
        std::chrono::nanoseconds(file["status_changed"].get<int64_t>())};
    if (changed <= now && now < changed + kTick) return std::this_thread::sleep_for(kTick);
  }
}

// Returns everything that determines the tokens.
json identity_of(const std::vector<fs::path>& files, const TextTokens& tokens, const CorpusOptions& options) {
  const auto bytes = std::as_bytes(std::span(tokens.identity));
  json identity = {{"version", kVersion},
                   {"tokenizer", file::hash_of(bytes).to_string()},
                   {"end_of_text", tokens.end_of_text},
                   {"held_out", options.held_out},
                   {"skip_bad", options.skip_bad},
                   {"files", json::array()}};
  for (const fs::path& path : files) identity["files"].push_back(facts_of(path));
  return identity;
}

std::string key_of(const json& identity) {
  const std::string text = identity.dump(-1, ' ', false, json::error_handler_t::replace);
  return file::hash_of(std::as_bytes(std::span(text))).to_string();
}

TokenCorpus corpus_in(const fs::path& folder, const TextTokens& tokens) {
  const json manifest = read_json_object(folder / kManifest, {});
  ObjectReader facts(manifest);
  const auto count = [&](const char* name) {
    return facts.required(facts.integer_in(name, 0, INT64_MAX), name, "a number");
  };
  // Older versions of Genesis wrote no hashes.
  const int64_t hashed = facts.integer_in("hashed_bytes", 0, INT64_MAX).value_or(0);
  if (hashed != 0 && hashed != static_cast<int64_t>(ShardWriter::kHashedBytes))
    fail("its shards have a hash for every {} bytes, expected {}: another version of Genesis made them",
         hashed, ShardWriter::kHashedBytes);
  const bool wide = !fits_u16(tokens.tokenizer.vocab_size());
  const auto stream = [&](const char* name, const char* counts) {
    const auto each = facts.required(facts.integers(counts, 0, INT64_MAX), counts, "numbers of tokens");
    return TokenStream(folder, name, wide, each, hashed != 0);
  };
  return {.training = stream("training", "training"),
          .held_out = stream("held-out", "held_out"),
          .folder = folder,
          .bytes = count("bytes"),
          .bad_lines = count("bad_lines"),
          .first_repaired = facts.text("first_repaired").value_or(""),
          .has_hashes = hashed != 0};
}

TokenCorpus opened(const fs::path& folder, const TextTokens& tokens) {
  return with_context([&] { return corpus_in(folder, tokens); },
                      [&] {
                        return fmt::format("'{}' is damaged: remove it, and the text is tokenized anew",
                                           folder.string());
                      });
}

TokenCorpus reopened(const fs::path& folder, const TextTokens& tokens) {
  TokenCorpus corpus = opened(folder, tokens);
  corpus.was_there = true;
  return corpus;
}

TokenCorpus made(const fs::path& folder, const std::vector<fs::path>& files, const TextTokens& tokens,
                 const CorpusOptions& options, const json& identity) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("cannot make the folder '{}': {}", folder.string(), error.message());
  wait_for_next_tick(identity["files"]);
  const bool wide = !fits_u16(tokens.tokenizer.vocab_size());
  ShardWriter training(folder, "training", wide), held_out(folder, "held-out", wide);
  const TokenizedText text = tokenize_files(files, tokens, options, training, held_out);
  const json manifest = {{"made_of", identity},
                         {"training", training.finish()},
                         {"held_out", held_out.finish()},
                         {"bytes", text.bytes},
                         {"bad_lines", text.bad_lines},
                         {"first_repaired", text.first_repaired},
                         {"hashed_bytes", ShardWriter::kHashedBytes}};
  // The manifest is written last: a folder that has it is complete.
  write_file_atomically(folder / kManifest,
                        manifest.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
                        LinkAtName::kReplaced);
  return opened(folder, tokens);
}

}  // namespace

TokenCorpus open_token_corpus(const std::vector<fs::path>& files, const TextTokens& tokens,
                              const CorpusOptions& options) {
  if (!(options.held_out >= 0 && options.held_out < 1))
    fail("{} of the documents held out: expected 0 or more, less than 1", options.held_out);
  for (const fs::path& path : files)
    if (!fs::is_regular_file(path)) fail("cannot read '{}': it is not a file", path.string());
  const json identity = identity_of(files, tokens, options);
  const fs::path cache = options.cache.empty() ? default_cache() : options.cache,
                 folder = cache / key_of(identity);
  if (fs::exists(folder / kManifest)) return reopened(folder, tokens);
  const std::string problem = options.cache.empty() ? why_not_writable(cache) : "";
  if (problem.empty()) return made(folder, files, tokens, options, identity);
  const fs::path here = TemporaryFolder::of_process().path() / key_of(identity);
  log_warning(
      "tokens are kept for this run alone, in '{}': cannot write '{}': {}; --token-cache names another "
      "folder",
      here.string(), cache.string(), problem);
  return fs::exists(here / kManifest) ? reopened(here, tokens) : made(here, files, tokens, options, identity);
}

}  // namespace genesis::data
