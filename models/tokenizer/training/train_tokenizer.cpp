#include "models/tokenizer/training/train_tokenizer.h"

#include <atomic>
#include <mutex>
#include <set>

#include "models/corpus/documents.h"
#include "models/tokenizer/patterns.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/training/write_tokenizer.h"
#include "models/tokenizer/unicode/unicode.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr size_t kChunk = 1 << 20;  // bytes of text that a thread takes at a time

void check_special_tokens(const std::vector<std::string>& tokens) {
  std::set<std::string> seen;
  for (const std::string& token : tokens) {
    if (token.empty()) fail("a special token is empty");
    if (!utf8::is_valid(token)) fail("a special token is not UTF-8");
    if (!seen.insert(token).second) fail("the special token '{}' is given twice", token);
  }
}

// Counts the words of texts, with one table per thread.
class WordCounter {
 public:
  explicit WordCounter(const Pattern& pattern) : pattern_(pattern), pre_tokenizer_(pattern.steps) {}

  // Counts the words of a chunk. Threads may call this concurrently.
  void add(const corpus::Chunk& chunk) {
    auto table = take();
    if (chunk.is_jsonl())
      add_documents(chunk, *table);
    else if (utf8::is_valid(chunk.text()))
      add_lines(chunk.text(), *table);
    else
      add_lines(utf8::repaired(chunk.text()), *table);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(table));
  }

  PartitionedWordCounts sum() const {
    std::vector<const PartitionedWordCounts*> counts;
    for (const auto& table : idle_) counts.push_back(&table->words);
    return PartitionedWordCounts::sum(counts);
  }

 private:
  struct Table {
    PartitionedWordCounts words;
    MatchState matches;
    std::string storage;
  };

  std::unique_ptr<Table> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Table>();
    auto table = std::move(idle_.back());
    idle_.pop_back();
    return table;
  }

  void add_lines(std::string_view text, Table& table) const {
    corpus::for_each_line(text, [&](std::string_view line) { add_text(line, table); });
  }

  void add_documents(const corpus::Chunk& chunk, Table& table) const {
    const auto bad = corpus::for_each_part(
        chunk, "", [&](const corpus::DocumentPart& part) { add_text(part.text, table); });
    if (!bad.empty()) fail("{}", corpus::describe(chunk, bad.front()));
  }

  void add_text(std::string_view text, Table& table) const {
    const std::string_view normal = pattern_.normalizes ? nfc(text, table.storage) : text;
    table.matches.budget.begin(normal.size());
    pre_tokenizer_.for_each_word(normal, table.matches,
                                 [&](std::string_view word) { table.words.add(word); });
  }

  const Pattern& pattern_;
  PreTokenizer pre_tokenizer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Table>> idle_;
};

PartitionedWordCounts count_words(const std::vector<std::filesystem::path>& files, const Pattern& pattern,
                                  const OnProgress& progress, int64_t& bytes) {
  WordCounter counter(pattern);
  std::atomic<int64_t> counted = 0;
  const auto add = [&](const corpus::Chunk& chunk) {
    counter.add(chunk);
    counted += static_cast<int64_t>(chunk.text().size());
  };
  corpus::for_each_chunk(files, kChunk, add, [&](uint64_t done, uint64_t total) {
    if (progress) progress("counting words", done, total);
  });
  bytes = counted;
  return counter.sum();
}

}  // namespace

TrainedTokenizer train_tokenizer(const std::vector<std::filesystem::path>& files,
                                 const TokenizerOptions& options, const TokenizerProgress& progress) {
  check_special_tokens(options.bpe.special_tokens);
  const Pattern pattern = pattern_named(options.pattern);
  TrainedTokenizer trained;
  const PartitionedWordCounts words = count_words(files, pattern, progress.counting, trained.bytes);
  const LearnedBpe learned = train_bpe(words, options.bpe, progress.merging);
  trained.tokens = static_cast<int64_t>(learned.tokens.size());
  trained.merges = static_cast<int64_t>(learned.merges.size());
  trained.words = static_cast<int64_t>(words.size());
  trained.json = tokenizer_json(learned, pattern, options.bpe.special_tokens);
  return trained;
}

}  // namespace genesis::text
