#include "models/decoder.h"

#include <cmath>

#include "builder/genesis.h"
#include "models/token_caches.h"

namespace genesis::models {
namespace {

// Returns the features of the last token of each row that is not padding: x [rows, seq, features] -> [rows, features].
Value last_tokens(Value x, Value count) {
  const Value last = maximum(count - 1, 0), index = reshape(last, {x.dim(0), 1, 1});
  return reshape(gather(x, 1, expand(index, {x.dim(0), 1, x.dim(2)})), {x.dim(0), x.dim(2)});
}

// Adds prefill for rows whose texts have different lengths: for all rows, or for one row that an input names. Padding gets the
// position of the last token, so that no position lies beyond the text.
void add_prefill(Model& model, const Decoder& decoder, const std::string& entry, int64_t rows,
                 bool names_row) {
  const Dim seq = symbol("seq");
  GraphBuilder g(model, entry);
  const Value tokens = g.input("tokens", DType::i64, {rows, seq}),
              position = g.input("position", DType::i64, {rows}),
              count = g.input("length", DType::i64, {rows});
  const Value row = names_row ? g.input("row", DType::i64, {}) : Value();
  Value text_length;
  if (decoder.depends_on_length) text_length = g.input("text_length", DType::i64, {rows});
  const Value ids = unsqueeze(position, 1) + minimum(arange(g.graph(), seq), unsqueeze(count - 1, 1));
  Positions positions{.ids = maximum(ids, 0), .start = position, .count = count, .row = row};
  positions.text_length = text_length;
  const Value x = decoder.hidden(tokens, positions);
  g.output("logits", decoder.logits(last_tokens(x, count), true));
}

void add_decode(Model& model, const Decoder& decoder, int64_t rows) {
  GraphBuilder g(model, "decode");
  const Value tokens = g.input("tokens", DType::i64, {rows, 1}),
              position = g.input("position", DType::i64, {rows});
  // The head, too, gets [rows, 1, hidden]. With [rows, hidden], the rows would belong to one matrix, and their number would
  // choose the order in which the CPU sums them (backends/cpu/product_implementations.h).
  const Value logits =
      decoder.logits(decoder.hidden(tokens, {.ids = unsqueeze(position, 1), .start = position}), true);
  g.output("logits", reshape(logits, {rows, logits.dim(2)}));
}

// Returns keys or values [batch, time, key_heads, head_size] with each head repeated, for `heads` query heads.
Value repeated(Value x, const Dim& heads) {
  const int64_t times = heads.value() / x.dim(2).value();
  return times == 1 ? x : repeat_interleave(x, times, 2);
}

// Returns scale q k^T, in f32 at least, as [batch, heads, query_time, key_time].
Value scores_of(Value q, Value keys, double scale) {
  const double standard = 1 / std::sqrt(static_cast<double>(q.dim(3).value()));
  const Value products = matmul(transpose(q, 1, 2), transpose(repeated(keys, q.dim(2)), 1, 2), false, true);
  return cast(products, promote(products.dtype(), DType::f32)) * (scale == 0 ? standard : scale);
}

// Returns the softmax of scores [batch, heads, query_time, key_time] beside one more score of each head, whose weight is left out.
Value softmax_with(Value scores, Value sinks) {
  const Shape shape{scores.dim(0), scores.dim(1), scores.dim(2), 1};
  const Value column = expand(reshape(cast(sinks, scores.dtype()), {1, scores.dim(1), 1, 1}), shape);
  return slice(softmax(concat({column, scores}, 3)), 3, 1);
}

// Returns the places in the cache of `count` new tokens behind `start`: i64[time], or [rows, time].
Value query_places(Graph& graph, const Dim& count, Value start) {
  return arange(graph, count) + (start.rank() == 0 ? start : unsqueeze(start, 1));
}

// Returns which keys each query sees, bool[query_time, key_time] or [rows, query_time, key_time]: those up to its own place, the
// last `window` of them (0: all), from `first` on if it is given.
Value seen_keys(Value queries, Value keys, int64_t window, Value first) {
  Value seen = keys <= queries;
  if (window > 0) seen = logical_and(seen, keys > queries - window);
  return first ? logical_and(seen, keys >= unsqueeze(first, -1)) : seen;
}

// Adds a loss. `positions_of` may add more inputs, behind tokens and targets.
void add_loss(Model& model, const Decoder& decoder, const std::string& entry,
              const std::function<Positions(GraphBuilder& g, const Shape& shape)>& positions_of) {
  GraphBuilder g(model, entry, Mode::kTrain);
  const Shape shape = {symbol("batch"), symbol("seq")};
  const Value tokens = g.input("tokens", DType::i64, shape), targets = g.input("targets", DType::i64, shape);
  const Value x = decoder.hidden(tokens, positions_of(g, shape));
  const Value extra = decoder.extra_loss ? decoder.extra_loss() : Value();
  const Value loss = cross_entropy(decoder.logits(x, false), targets);
  g.output("loss", extra ? loss + extra : loss);
}

// Returns i64[batch, seq]: for each token, the index of the first token of its segment.
Value segment_starts(Value segments) {
  const Value seq = dim_value(*segments.graph, segments.dim(1));
  const Value same = eq(unsqueeze(segments, 2), unsqueeze(segments, 1));
  return min(where(same, arange(*segments.graph, segments.dim(1)), seq), {2});
}

Positions packed_positions(GraphBuilder& g, const Shape& shape) {
  const Value ids = g.input("positions", DType::i64, shape),
              segments = g.input("segments", DType::i64, shape);
  return {
      .ids = ids, .start = {}, .count = {}, .row = {}, .first = segment_starts(segments), .text_length = {}};
}

}  // namespace

KeyValueCache::KeyValueCache(const Scope& scope, const CacheSize& size, int64_t heads, int64_t head_size,
                             Kept kept)
    : keys_(scope.cache("k_cache", {size.rows, size.positions, heads, head_size}, scope.dtype(),
                        CacheLayout{.kind = "keys", .rows_axis = 0, .positions_axis = 1})) {
  if (kept == Kept::kBoth)
    values_ = scope.cache("v_cache", {size.rows, size.positions, heads, head_size}, scope.dtype(),
                          CacheLayout{.kind = "values", .rows_axis = 0, .positions_axis = 1});
}

Value limited(Value x, double limit) { return limit == 0 ? x : tanh(x / limit) * limit; }

KeyValueCache::Seen KeyValueCache::append(Value k, Value v, const Positions& positions) const {
  if (!positions.start) return {k, v};
  const Value keys = append_tokens(keys_, k, positions);
  return {keys, values_ ? append_tokens(values_, v, positions) : keys};
}

Value KeyValueCache::attend_to(Value q, const Seen& seen, const Positions& positions,
                               AttentionOptions options, double score_limit, Value sinks) {
  options.causal = true;
  if (score_limit != 0 || sinks) return attend_within(q, seen, positions, options, score_limit, sinks);
  if (!positions.start) return attention(q, seen.keys, seen.values, options, {}, {}, positions.first);
  const Value length = positions.start + dim_value(*q.graph, q.dim(1));
  return attention(q, seen.keys, seen.values, options, {}, length);
}

Value KeyValueCache::attend(Value q, Value k, Value v, const Positions& positions, AttentionOptions options,
                            double score_limit, Value sinks) const {
  return attend_to(q, append(k, v, positions), positions, options, score_limit, sinks);
}

Value KeyValueCache::attend_within(Value q, const Seen& seen, const Positions& positions,
                                   const AttentionOptions& options, double score_limit, Value sinks) {
  Graph& graph = *q.graph;
  const Value scores = scores_of(q, seen.keys, options.scale);
  const Value own =
      positions.start ? query_places(graph, q.dim(1), positions.start) : arange(graph, q.dim(1));
  const Value seen_ones =
      seen_keys(unsqueeze(own, -1), arange(graph, seen.keys.dim(1)), options.window, positions.first);
  const Value masked = where(seen_ones.rank() == 2 ? seen_ones : unsqueeze(seen_ones, 1),
                             limited(scores, score_limit), scalar_like(scores, -1e30));
  const Value weights = cast(sinks ? softmax_with(masked, sinks) : softmax(masked), seen.values.dtype());
  return transpose(matmul(weights, transpose(repeated(seen.values, q.dim(2)), 1, 2)), 1, 2);
}

void add_decoder_entries(Model& model, const Decoder& decoder, int64_t rows_of_cache) {
  const Dim batch = symbol("batch"), seq = symbol("seq");
  add_loss(model, decoder, "loss",
           [](GraphBuilder& g, const Shape& shape) { return Positions{.ids = arange(g.graph(), shape[1])}; });
  add_loss(model, decoder, "loss_packed", packed_positions);
  {
    GraphBuilder g(model, "forward");
    const Value tokens = g.input("tokens", DType::i64, {batch, seq});
    g.output("logits", decoder.logits(decoder.hidden(tokens, {.ids = arange(g.graph(), seq)}), true));
  }
  add_prefill(model, decoder, "prefill", rows_of_cache, false);
  add_prefill(model, decoder, "prefill_row", 1, true);
  add_decode(model, decoder, rows_of_cache);
}

}  // namespace genesis::models
