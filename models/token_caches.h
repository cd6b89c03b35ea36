// Caches of layers other than attention: what they keep of the texts that they have read.
#pragma once

#include <vector>

#include "builder/scope.h"
#include "models/positions.h"

namespace genesis::models {

// Writes `update` [batch, time, ...] into a cache [rows, positions, ...] behind the tokens that it holds of each row. Returns the
// rows of the batch with it. `positions.start` must be given.
Value append_tokens(const Parameter& cache, Value update, const Positions& positions);

// Returns which tokens begin a text, bool [rows, seq]; empty: only the first of each row, before which nothing is cached.
Value begins_text(Graph& graph, const Positions& positions, const Dim& seq);

// Holds a vector of each token read so far, in a state [rows, positions, features], for layers that read those of the last few
// tokens. It keeps all of them and not only the last few, so that a text can go on from any of its tokens, as with keys and values.
class VectorCache {
 public:
  VectorCache(const Scope& scope, const CacheSize& size, int64_t features);
  // Returns the vectors of the `count` tokens before those of x [batch, time, features], followed by x: [batch, count + time,
  // features]. Before the first token of a row they are zeros. If `positions.start` is given, appends x to the cache.
  Value with_last(Value x, int64_t count, const Positions& positions) const;

 private:
  Parameter vectors_;
};

// Holds the state of a recurrence over the tokens of each row: after all tokens read so far, and before the last of them. So the
// last token may be read again, as rows do that wait for others. A text can go on from no other token, except from the beginning,
// where states are forgotten: a prefill at another position fails with an index that is out of range, and decode, whose rows may
// be idle, changes nothing.
class RecurrentCache {
 public:
  // `shape` is that of a row's state, which is f32 at least.
  RecurrentCache(const Scope& scope, const CacheSize& size, const std::vector<int64_t>& shape);
  // Returns the states [batch, shape...] behind the `positions.start` tokens before this chunk.
  Value state(Graph& graph, const Positions& positions) const;
  // Keeps the states before and after the last token of a chunk of `seq` tokens.
  void keep(Value before, Value after, const Positions& positions, const Dim& seq) const;

 private:
  Value own(Graph& graph, const Parameter& cache, const Positions& positions) const;
  // Writes `next` for the rows that `goes_on`, bool [batch], names.
  void update(const Parameter& cache, Value next, Value goes_on, const Positions& positions) const;

  // The state behind n tokens is in slot n % 2 of [rows, 2, shape...]; `tokens_`, i64 [rows, 2], has the n of each slot.
  Parameter states_, tokens_;
};

// Holds the vectors of the last `count` tokens of each row, for convolutions in layers that also have a recurrent state: its memory
// does not grow with the text. A text can go on from the tokens that RecurrentCache names.
class LastVectors {
 public:
  LastVectors(const Scope& scope, const CacheSize& size, int64_t count, int64_t features);
  // Does what VectorCache::with_last() does.
  Value with_last(Value x, const Positions& positions) const;

 private:
  int64_t count_;
  RecurrentCache cache_;
};

}  // namespace genesis::models
