// What the KV cache does not hold yet of the texts of some rows, read in runs whose sizes are powers of two, so that
// prompts of all lengths share a few plans. A run may be longer than what is left to read: what stands behind is any
// token, and nobody reads it before it is written again. Where rotations depend on the text's length (dynamic rope), each
// run is told that of the whole prompt. Used by models/text/generator.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "executor/session.h"
#include "models/text/decoding.h"

namespace genesis::text {

// The size of the next run, a power of two of at most `most`. `unread` tokens, 1 or more, are left, and the cache
// has `room` for that many or more.
int64_t next_chunk(int64_t unread, int64_t room, int64_t most);

class PromptReader {
 public:
  // `fresh`: the rows that read; each has an answer. `most`: tokens of one run, of all rows together.
  PromptReader(Session& session, std::vector<Row>& rows, std::vector<size_t> fresh, int64_t most);

  std::vector<std::pair<std::string, int64_t>> plans() const;  // entry points, and the sizes of their runs
  // Reads all but the last token of each row, which the step that chooses the next one reads; with a cache of one row
  // all but what is left for last(); and all where nothing is to be chosen.
  void fill_cache();
  // The step that reads the rest of a text and chooses its first token, where the model has one.
  Decoding::First last() const;

 private:
  // Tokens of a row that one run reads: `count` from `at` on.
  struct Part {
    int64_t at = 0, count = 0;
  };
  struct Chunk {
    std::string entry;
    int64_t size = 0;          // padded
    std::vector<size_t> rows;  // that the run has: all, or one
    std::vector<Part> parts;   // of these rows
  };
  std::vector<Chunk> cut_together(int64_t most) const;
  std::vector<Chunk> cut_one_by_one(int64_t most) const;
  std::vector<Chunk> cut(const char* entry, const std::vector<size_t>& rows, int64_t most) const;
  static int64_t cost_of(const std::vector<Chunk>& chunks);
  bool is_fresh(size_t row) const;
  int64_t end_of(const Row& row) const;
  NamedTensors inputs_of(const Chunk& chunk) const;

  Session& session_;
  std::vector<Row>& rows_;
  const std::vector<size_t> fresh_;
  std::string sampling_entry_;  // empty: the model has none, or nothing is to be chosen
  std::vector<Chunk> chunks_;
};

}  // namespace genesis::text
