// The common part of decoder-only language models: a KV cache and these entry points.
//
//   loss     tokens i64[batch,seq], targets i64[batch,seq] -> loss f32[]; targets of -100 do not count
//   loss_packed  the same with positions and segments i64[batch,seq], for rows that hold several texts: a token stands
//                at its position in its own text and attends only to its own segment, whose tokens are adjacent
//   forward  tokens i64[batch,seq]                         -> logits [batch,seq,vocab]
//   prefill  tokens i64[rows,seq], position i64[rows], length i64[rows] -> logits [rows,vocab] of each row's last token; fills
//            the cache
//   decode   tokens i64[rows,1], position i64[rows]        -> logits [rows,vocab]; appends to the cache
//   prefill_row  tokens i64[1,seq], position i64[1], length i64[1], row i64[] -> logits [1,vocab]; does what prefill does
//                for one row of the cache and reads no other; a `row` beyond the last selects the last row
//
// `rows` is the number of texts in the cache, 1 as well as many (passes/core/cache_size.h changes it), and `position` the number of
// tokens that the cache already holds of each.
//
// A row of prefill is padded behind its `length` tokens with arbitrary tokens. A row with length 0 leaves its cache unchanged,
// and its logits are meaningless. The run fails if position + length exceeds the positions of the cache. A row gives the result
// that its text gives alone, on a GPU up to rounding.
//
// If rotary frequencies depend on the length of the text (dynamic scaling), prefill and prefill_row take one more input, behind
// the others: text_length i64[rows], the number of tokens of the whole prompt, of which `tokens` is one chunk.
#pragma once

#include <functional>

#include "builder/init.h"
#include "builder/scope.h"
#include "models/positions.h"
#include "schema/ops/nn/attention.h"

namespace genesis::models {

// Holds keys and values of the tokens read so far, in two states [rows, positions, heads, head_size], or in one if the values are
// the keys.
class KeyValueCache {
 public:
  enum class Kept : uint8_t { kBoth, kOne };
  KeyValueCache(const Scope& scope, const CacheSize& size, int64_t heads, int64_t head_size,
                Kept kept = Kept::kBoth);
  // The keys and values that queries see: those of the cache with new ones, or the new ones alone.
  struct Seen {
    Value keys, values;
  };
  // Appends k and v to the cache if `positions.start` is given.
  Seen append(Value k, Value v, const Positions& positions) const;
  // Computes what attend() does of keys and values that were appended before, maybe by another layer.
  static Value attend_to(Value q, const Seen& seen, const Positions& positions, AttentionOptions options = {},
                         double score_limit = 0, Value sinks = {});
  // Computes causal attention of q [batch, time, heads, head_size]. If `positions.start` is given, appends k and v to the cache
  // and attends to the whole cache. `options` give scale and window; scores s become limit * tanh(s / limit) if `score_limit` is
  // not 0. `sinks` [heads] are scores that take part in the softmax of each query, and have no value.
  Value attend(Value q, Value k, Value v, const Positions& positions, AttentionOptions options = {},
               double score_limit = 0, Value sinks = {}) const;

 private:
  // Attends with limited scores or sinks. The attention op has neither, so this consists of basic ops.
  static Value attend_within(Value q, const Seen& seen, const Positions& positions,
                             const AttentionOptions& options, double score_limit, Value sinks);

  Parameter keys_, values_;  // without values_ the keys are the values
};

// Returns limit * tanh(x / limit), or x if the limit is 0.
Value limited(Value x, double limit);

// Returns the initializer of a weight matrix: normal with this standard deviation, or unset if it is 0, because the weights will
// be loaded.
inline init::Init weights_init(double deviation) {
  return deviation == 0 ? init::unset() : init::normal(0, deviation);
}

struct Decoder {
  std::function<Value(Value tokens, const Positions& positions)> hidden;  // -> [batch, seq, hidden]
  // -> [..., vocab]. With `wide` the logits are f32 even if weights have 16 bits: tokens are chosen from them, and rounded logits
  // would tie. A loss passes false and gets logits in the dtype of its computation.
  std::function<Value(Value hidden, bool wide)> logits;
  bool depends_on_length = false;  // RoPE frequencies depend on the length of the whole text
  // Returns what is added to the loss of the tokens whose features hidden() made last, f32[]; empty: nothing.
  std::function<Value()> extra_loss = {};
};
void add_decoder_entries(Model& model, const Decoder& decoder, int64_t rows_of_cache = 1);

}  // namespace genesis::models
