#include "models/data/tokenize_corpus.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <thread>

#include "models/corpus/documents.h"
#include "models/data/permutation.h"
#include "schema/core/error.h"
#include "schema/core/parallel.h"
#include "schema/file/format/utf8.h"

namespace genesis::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunk = 1 << 20;     // bytes of text that a thread takes at a time
constexpr size_t kAtOnce = 128;        // limit of chunks in memory, and of mapped files
constexpr uint64_t kShares = 1 << 20;  // resolution of the share of documents that are held out

using Tokens = std::vector<uint32_t>;

struct ChunkTokens {
  Tokens training, held_out;
  size_t last_part = 0;  // index in `training` where the last part begins
  std::vector<corpus::BadLine> bad;
  std::optional<size_t> repaired;  // offset in the file of the first byte that is not UTF-8
};

class CorpusTokenizer {
 public:
  CorpusTokenizer(const TextTokens& tokens, const CorpusOptions& options, ShardWriter& training,
                  ShardWriter& held_out)
      : tokens_(tokens),
        options_(options),
        mark_(tokens.tokenizer.id_to_token(tokens.end_of_text).value_or("")),
        training_(training),
        held_out_(held_out) {}

  TokenizedText run(const std::vector<fs::path>& files) {
    for (const fs::path& file : files) total_ += fs::file_size(file);
    for (size_t i = 0; i < files.size(); ++i) {
      mapped_.push_back(MappedFile::open(files[i]));
      const auto bytes = mapped_.back()->bytes();
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      for (corpus::Chunk& chunk : corpus::chunks_of(files[i], text, kChunk, mark_))
        waiting_.push_back({std::move(chunk), i});
      result_.bytes += static_cast<int64_t>(text.size());
      if (waiting_.size() >= kAtOnce || mapped_.size() >= kAtOnce) tokenize_waiting();
    }
    tokenize_waiting();
    write_rest();
    return result_;
  }

 private:
  struct Waiting {
    corpus::Chunk chunk;
    size_t file;
  };

  void tokenize_waiting() {
    for (size_t first = 0; first < waiting_.size(); first += kAtOnce)
      tokenize(std::span(waiting_).subspan(first, std::min(kAtOnce, waiting_.size() - first)));
    waiting_.clear();
    mapped_.clear();
  }

  void tokenize(std::span<const Waiting> chunks) {
    std::vector<ChunkTokens> made(chunks.size());
    std::atomic<uint64_t> done = done_;
    const std::thread::id caller = std::this_thread::get_id();
    in_parallel(static_cast<int64_t>(chunks.size()), 1, [&](int64_t first, int64_t) {
      const auto i = static_cast<size_t>(first);
      made[i] = tokens_of(chunks[i]);
      done += chunks[i].chunk.end - chunks[i].chunk.begin;
      if (options_.progress && std::this_thread::get_id() == caller)
        options_.progress("tokenizing", done, total_);
    });
    done_ = done;
    for (size_t i = 0; i < chunks.size(); ++i) take(chunks[i].chunk, made[i]);
  }

  ChunkTokens tokens_of(const Waiting& waiting) const {
    ChunkTokens made;
    made.bad = corpus::for_each_part(waiting.chunk, mark_, [&](const corpus::DocumentPart& part) {
      if (!made.repaired && !waiting.chunk.is_jsonl())
        made.repaired = first_to_repair(waiting.chunk, part.text);
      const bool held = is_held_out(waiting.file, part.unit);
      if (!held) made.last_part = made.training.size();
      Tokens& row = held ? made.held_out : made.training;
      for (const int64_t id : tokens_.tokenizer.encode(part.text, part.is_first))
        row.push_back(static_cast<uint32_t>(id));
      if (part.is_last) row.push_back(static_cast<uint32_t>(tokens_.end_of_text));
    });
    return made;
  }

  // Returns the offset in the file of the first byte of `text` that is not UTF-8. `text` is a view into the file.
  static std::optional<size_t> first_to_repair(const corpus::Chunk& chunk, std::string_view text) {
    const size_t valid = utf8::valid_bytes(text);
    if (valid == text.size()) return std::nullopt;
    return static_cast<size_t>(text.data() - chunk.file.data()) + valid;
  }

  bool is_held_out(size_t file, uint64_t unit) const {
    const uint64_t share = mix(mix(file + 1) ^ unit) % kShares;
    return static_cast<double>(share) < options_.held_out * static_cast<double>(kShares);
  }

  // Appends the tokens of a chunk. The last training part is kept back: write_rest() holds it out if nothing else was.
  void take(const corpus::Chunk& chunk, const ChunkTokens& made) {
    if (!made.bad.empty() && !options_.skip_bad)
      fail("{}; --skip-bad leaves such lines out", corpus::describe(chunk, made.bad.front()));
    result_.bad_lines += static_cast<int64_t>(made.bad.size());
    if (made.repaired && result_.first_repaired.empty())
      result_.first_repaired = fmt::format("byte {} of '{}'", *made.repaired, chunk.path.string());
    held_out_.append(made.held_out);
    any_held_out_ = any_held_out_ || !made.held_out.empty();
    if (made.training.empty()) return;
    training_.append(last_);
    const auto last = made.training.begin() + static_cast<std::ptrdiff_t>(made.last_part);
    training_.append({made.training.begin(), last});
    last_.assign(last, made.training.end());
  }

  void write_rest() {
    const bool holds = options_.held_out > 0 && !any_held_out_;
    (holds ? held_out_ : training_).append(last_);
  }

  const TextTokens& tokens_;
  const CorpusOptions& options_;
  const std::string mark_;
  ShardWriter &training_, &held_out_;
  std::vector<std::shared_ptr<const MappedFile>> mapped_;
  std::vector<Waiting> waiting_;
  Tokens last_;
  bool any_held_out_ = false;
  uint64_t done_ = 0, total_ = 0;
  TokenizedText result_;
};

}  // namespace

TokenizedText tokenize_files(const std::vector<fs::path>& files, const TextTokens& tokens,
                             const CorpusOptions& options, ShardWriter& training, ShardWriter& held_out) {
  return CorpusTokenizer(tokens, options, training, held_out).run(files);
}

}  // namespace genesis::data
