// Caches of layers other than attention: what they keep of the texts that they have read.
#pragma once

#include "builder/scope.h"
#include "models/positions.h"

namespace genesis::models {

// Writes `update` [batch, time, ...] into a cache [rows, positions, ...] behind the tokens that it holds of each row. Returns the
// rows of the batch with it. `positions.start` must be given.
Value append_tokens(const Parameter& cache, Value update, const Positions& positions);

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

}  // namespace genesis::models
