// What decoder-only language models share: a KV cache, and the entry points
//
//   loss     tokens i64[batch,seq], targets i64[batch,seq]  -> loss f32[]       (targets of -100 do not
//   count) forward  tokens i64[batch,seq]                          -> logits [batch,seq,vocab] prefill tokens
//   i64[1,seq], position i64[]              -> logits [1,vocab] of the last token; fills the cache decode
//   tokens i64[1,1], position i64[]                -> logits [1,vocab]; appends to the cache
//
// `position` is how many tokens the cache holds already.
#pragma once

#include <functional>

#include "builder/init.h"
#include "builder/scope.h"

namespace genesis::models {

struct Positions {
  Value ids;    // i64[seq]: the position of each token
  Value start;  // i64[]: where the cache is appended; empty where there is no cache (loss, forward)
};

// Keys and values of the tokens read so far: two states [1, positions, heads, head_size].
class KeyValueCache {
 public:
  KeyValueCache(const Scope& scope, int64_t positions, int64_t heads, int64_t head_size);
  // Causal attention of q [batch, time, heads, head_size]; with positions.start, over the cache with k and v
  // appended.
  Value attend(Value q, Value k, Value v, const Positions& positions) const;

 private:
  Parameter keys_, values_;
};

// Of every matrix: normal with this deviation, or unset where it is 0, as for a model whose weights are read.
inline init::Init weights_init(double deviation) {
  return deviation == 0 ? init::unset() : init::normal(0, deviation);
}

struct Decoder {
  std::function<Value(Value tokens, const Positions& positions)> hidden;  // -> [batch, seq, hidden]
  std::function<Value(Value hidden)> logits;                              // -> [..., vocab]
};
void add_decoder_entries(Model& model, const Decoder& decoder);

}  // namespace genesis::models
