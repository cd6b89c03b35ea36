// What decoder-only language models share: a KV cache, and the entry points
//
//   loss     tokens i64[batch,seq], targets i64[batch,seq] -> loss f32[]; targets of -100 do not count
//   loss_packed  the same with positions and segments i64[batch,seq], for rows that hold several texts: a token stands
//                at its position in its text and sees only tokens of its own segment, which stand side by side
//   forward  tokens i64[batch,seq]                         -> logits [batch,seq,vocab]
//   prefill  tokens i64[1,seq], position i64[]             -> logits [1,vocab] of the last token; fills the cache
//   decode   tokens i64[1,1], position i64[]               -> logits [1,vocab]; appends to the cache
//
// `position` is how many tokens the cache holds already. Of a cache of several rows, each with a text of its own:
//
//   prefill  tokens i64[rows,seq], position i64[rows], length i64[rows] -> logits [rows,vocab] of each row's last token
//   decode   tokens i64[rows,1], position i64[rows]                     -> logits [rows,vocab]
//   prefill_row  tokens i64[1,seq], position i64[1], length i64[1], row i64[] -> logits [1,vocab]; what prefill does with
//                one row, the last where `row` is beyond it, and does not look at the others
//
// A row of prefill is padded behind its `length` tokens with any; with a length of 0 its cache stays as it is, and its
// logits mean nothing. position + length beyond the cache's positions is an error of the run. A row gives what it gives
// alone.
//
// Where rotations depend on how long the text is (dynamic scaling), prefill and prefill_row take one input more, behind the
// others: text_length i64[] or [rows], the tokens of the whole prompt that the ones at hand are a piece of.
#pragma once

#include <functional>

#include "builder/init.h"
#include "builder/scope.h"
#include "schema/ops/nn/attention.h"

namespace genesis::models {

struct Positions {
  Value ids;    // i64[seq], or [rows, seq] where each row has its own: the position of each token
  Value start;  // i64[] or [rows]: where the cache is appended; empty where there is no cache (loss, forward)
  Value count;  // i64[rows]: how many tokens of a row are no padding; empty: all
  Value row;    // i64[]: the row of the cache that the only row at hand is; empty: all rows are at hand
  Value
      first;  // i64[rows, seq]: the first token that a token sees, where a row holds several texts; empty: the row's first
  Value
      text_length;  // i64[] or [rows]: tokens of the text that those at hand are a piece of; empty: they are its end

  // Tokens of the text, or of the text so far where nothing says how long it is: numbers [] or [rows]. Of rows that hold
  // several texts those of each row's longest.
  Value length(Graph& graph) const;
};

struct CacheSize {
  int64_t rows = 1, positions = 0;
};

// Keys and values of the tokens read so far: two states [rows, positions, heads, head_size].
class KeyValueCache {
 public:
  KeyValueCache(const Scope& scope, const CacheSize& size, int64_t heads, int64_t head_size);
  // Causal attention of q [batch, time, heads, head_size]; with positions.start, over the cache with k and v
  // appended. `options` say scale and window.
  Value attend(Value q, Value k, Value v, const Positions& positions, AttentionOptions options = {}) const;

 private:
  Parameter keys_, values_;
};

// Of every matrix: normal with this deviation, or unset where it is 0, as for a model whose weights are read.
inline init::Init weights_init(double deviation) {
  return deviation == 0 ? init::unset() : init::normal(0, deviation);
}

struct Decoder {
  std::function<Value(Value tokens, const Positions& positions)> hidden;  // -> [batch, seq, hidden]
  // -> [..., vocab]. With `wide` f32 also where weights have 16 bits: tokens are chosen from them, and rounded logits would tie.
  // A loss asks for them without, in the dtype of its computation.
  std::function<Value(Value hidden, bool wide)> logits;
  bool depends_on_length = false;  // on that of the whole text, beside the tokens in front
};
void add_decoder_entries(Model& model, const Decoder& decoder, int64_t rows_of_cache = 1);

}  // namespace genesis::models
