// Reads the tokens of some rows' texts that the KV cache does not hold yet. It reads in chunks of a few sizes, so that prompts of
// all lengths share a few plans. Other texts may go on between the chunks: a reader that is made anew continues
// with the chunk that the previous one would have read. If fewer tokens are left than a chunk has, the chunk begins with tokens that
// were read before, which rewrites the same keys and values, or it ends with padding: arbitrary tokens whose cache entries are
// overwritten before they are read. If RoPE depends on the text's length (dynamic scaling), each run gets the length of the whole
// prompt.
//
// On the CPU each prompt is read by itself, in chunks that depend only on its length: the last bits of a kernel's result depend
// on the size of the chunk, and a text must not depend on its neighbors, on the number of rows or on the context. The last token
// of a prompt is read by the step that chooses the next one, for every number of rows. Other devices choose the fastest plan unless
// Limits::by_length_alone is set: prompts side by side or one behind the other, and the last chunk together with the choice of the first
// token.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "executor/generation/decoding.h"
#include "executor/generation/stopwatch.h"
#include "executor/session.h"

namespace genesis::generation {

// Tokens that take about as long as one, because reading the weights does: on the CPU.
inline constexpr int64_t kCheapTokens = 32;

struct ChunkSize {
  int64_t size = 0;
  int64_t repeated = 0;  // leading tokens of the chunk that were read before
  bool operator==(const ChunkSize&) const = default;
};
struct ChunkLimits {
  int64_t most = 512;            // limit of a chunk's tokens, a power of two
  bool by_length_alone = true;   // the result does not depend on `room`, unless that is below 32
  bool may_pad = true;           // a chunk may have more tokens than are left, or repeat some
  int64_t cheap = kCheapTokens;  // without `by_length_alone`: so many tokens take as long as one
};
// Returns the next chunk of a text. `unread` tokens, at least 1, follow `read` others, and the cache has `room` for them and
// their padding. The size is a power of two, or without `by_length_alone` three quarters of one; or, if that is set and a few tokens
// have too little room for padding, their number.
ChunkSize next_chunk(int64_t unread, int64_t read, int64_t room, const ChunkLimits& limits);

class PromptReader {
 public:
  struct Limits {
    int64_t chunk = 512;           // tokens of one run, over all rows: a power of two
    int64_t capacity = 0;          // positions of the cache
    bool by_length_alone = true;   // read each prompt by itself, in chunks that depend on its length alone
    int64_t cheap = kCheapTokens;  // ChunkLimits says what it means
  };
  // Returns the limits for these EngineOptions. Throws Error for a chunk that is no power of two, and for a step of no token.
  static Limits limits_of(const Session& session, int64_t prefill_chunk, int64_t step_tokens,
                          bool reproducible);
  // `reading` are the rows to read, at least one; each has a task.
  PromptReader(Session& session, std::vector<Row>& rows, std::vector<size_t> reading, const Limits& limits);

  std::vector<std::pair<std::string, int64_t>> plans() const;  // entry points and `seq` of their runs
  // Reads chunks until `budget` tokens are used up, padding included, or all tokens are read that must be in the cache before the
  // next one is chosen: all but the last token of each row, or all but the chunk that last() describes; all tokens if none is to
  // be chosen. Reads at least one chunk, and calls `on_read` with each row that a chunk has read. `times` counts the runs by their
  // tokens. Throws Error if a run fails.
  void fill_cache(int64_t budget, const std::function<void(size_t row)>& on_read, RunTimes& times);
  std::vector<size_t> rows_of_next_chunk()
      const;  // after an error: the rows whose tokens the failed run should read
  // Returns true if no chunk of the row is left, except for that of last().
  bool has_read(size_t row) const;
  // Returns the step that reads the rest of a text and chooses its first token, if there is one.
  Decoding::First last() const;

 private:
  // The tokens of a row that one run reads: `count` from `at` on.
  struct Part {
    int64_t at = 0, count = 0;
  };
  struct Chunk {
    std::string entry;
    int64_t size = 0;          // including padding
    std::vector<size_t> rows;  // rows of the run: all, one, or those whose texts stand one behind the other
    std::vector<Part> parts;   // per row
    bool is_packed() const { return entry == kFillPacked; }
    int64_t tokens() const { return is_packed() ? size : size * std::ssize(rows); }
  };
  void cut_by_length_alone();
  void cut_for_speed();
  std::vector<Chunk> cut_together() const;
  std::vector<Chunk> cut_one_by_one(const char* entry) const;
  std::vector<Chunk> cut_packed() const;
  Chunk packed(const std::vector<size_t>& rows) const;
  std::vector<Chunk> cut(const char* entry, const std::vector<size_t>& rows, int64_t most) const;
  int64_t cost_of(const std::vector<Chunk>& chunks) const;
  static int64_t time_of(const std::vector<Chunk>& chunks);
  static std::vector<size_t> rows_of(const Chunk& chunk);
  bool is_reading(size_t row) const;
  int64_t end_of(const Row& row) const;
  NamedTensors inputs_of(const Chunk& chunk) const;
  NamedTensors inputs_of_packed(const Chunk& chunk) const;

  Session& session_;
  std::vector<Row>& rows_;
  const std::vector<size_t> reading_;
  const Limits limits_;
  const bool can_rewind_;
  std::string sampling_entry_;  // empty: no chunk chooses a token
  std::vector<Chunk> chunks_;
  size_t next_ = 0;  // the first chunk that was not read
};

}  // namespace genesis::generation
