// Reads the tokens that the KV cache does not hold yet of the texts of some rows, in chunks whose sizes are powers of two, so
// that prompts of all lengths share a few plans. Where fewer tokens are left than a chunk has, it begins with tokens that
// were read before, which gives them the keys and values that they have, or it ends with padding: any token, and its place in the cache
// is written again before it is read. Where rotations depend on the text's length (dynamic rope), each run is told that of the
// whole prompt. Used by models/text/generator.cpp.
//
// On the CPU each prompt is read by itself, in chunks that follow from its length alone: a kernel's last bits depend on the
// size of the chunk, and a text must not depend on its neighbours, on the number of rows or on the context. The last token
// of a prompt is read by the step that chooses the next one, for every number of rows. Other devices read what is
// fastest: prompts side by side, and the last chunk together with the choice of the first token.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "executor/session.h"
#include "models/text/decoding.h"

namespace genesis::text {

struct ChunkSize {
  int64_t size = 0;
  int64_t repeated = 0;  // tokens at the chunk's beginning that were read before
  bool operator==(const ChunkSize&) const = default;
};
struct ChunkLimits {
  int64_t most = 512;           // tokens of a chunk, a power of two
  bool by_length_alone = true;  // the result does not depend on `room`, but where that is below 32
};
// The next chunk of a text. `unread` tokens, 1 or more, are left behind `read` others, and the cache has `room` for them and what
// pads them. The size is a power of two, but where the room for a few tokens is too small to pad them by length alone.
ChunkSize next_chunk(int64_t unread, int64_t read, int64_t room, const ChunkLimits& limits);

class PromptReader {
 public:
  // `fresh`: the rows that read; each has an answer. `most`: tokens of one run, of all rows together.
  PromptReader(Session& session, std::vector<Row>& rows, std::vector<size_t> fresh, int64_t most);

  std::vector<std::pair<std::string, int64_t>> plans() const;  // entry points, and the sizes of their runs
  // Reads all but the last token of each row, which the step that chooses the next one reads, or all but what is left for
  // last(); and all where nothing is to be chosen.
  void fill_cache();
  // The step that reads the rest of a text and chooses its first token, where there is one.
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
  void cut_by_length_alone(int64_t most);
  void cut_for_speed(int64_t most);
  std::vector<Chunk> cut_together(int64_t most) const;
  std::vector<Chunk> cut_one_by_one(const char* entry, int64_t most) const;
  std::vector<Chunk> cut(const char* entry, const std::vector<size_t>& rows, int64_t most) const;
  static int64_t cost_of(const std::vector<Chunk>& chunks);
  bool is_fresh(size_t row) const;
  int64_t end_of(const Row& row) const;
  NamedTensors inputs_of(const Chunk& chunk) const;

  Session& session_;
  std::vector<Row>& rows_;
  const std::vector<size_t> fresh_;
  const bool by_length_alone_;
  std::string sampling_entry_;  // empty: no chunk chooses a token
  std::vector<Chunk> chunks_;
};

}  // namespace genesis::text
