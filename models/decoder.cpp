#include "models/decoder.h"

#include "builder/genesis.h"

namespace genesis::models {
namespace {

Value append(Parameter cache, Value update, Value start) {
  Graph& graph = *update.graph;
  const Value appended = dynamic_update_slice(cache.in(graph), update, start, 1);
  graph.add_update(cache.index, appended);
  return appended;
}

// Prefill and decode are one graph over a number of new tokens: many, or one.
void add_cached(Model& model, const Decoder& decoder, const std::string& entry, const Dim& length) {
  GraphBuilder g(model, entry);
  const Value tokens = g.input("tokens", DType::i64, {1, length}),
              position = g.input("position", DType::i64, {});
  const Value x = decoder.hidden(tokens, {.ids = arange(g.graph(), length) + position, .start = position});
  g.output("logits", decoder.logits(reshape(narrow(x, 1, length - 1, 1), {1, x.dim(2)})));
}

}  // namespace

KeyValueCache::KeyValueCache(const Scope& scope, int64_t positions, int64_t heads, int64_t head_size)
    : keys_(scope.cache("k_cache", {1, positions, heads, head_size}, scope.dtype())),
      values_(scope.cache("v_cache", {1, positions, heads, head_size}, scope.dtype())) {}

Value KeyValueCache::attend(Value q, Value k, Value v, const Positions& positions) const {
  if (!positions.start) return attention(q, k, v, {.causal = true});
  const Value keys = append(keys_, k, positions.start), values = append(values_, v, positions.start);
  const Value length = positions.start + dim_value(*q.graph, q.dim(1));
  return attention(q, keys, values, {.causal = true}, {}, length);
}

void add_decoder_entries(Model& model, const Decoder& decoder) {
  const Dim batch = symbol("batch"), seq = symbol("seq");
  {
    GraphBuilder g(model, "loss", Mode::kTrain);
    const Value tokens = g.input("tokens", DType::i64, {batch, seq}),
                targets = g.input("targets", DType::i64, {batch, seq});
    const Value x = decoder.hidden(tokens, {.ids = arange(g.graph(), seq)});
    g.output("loss", cross_entropy(decoder.logits(x), targets));
  }
  {
    GraphBuilder g(model, "forward");
    const Value tokens = g.input("tokens", DType::i64, {batch, seq});
    g.output("logits", decoder.logits(decoder.hidden(tokens, {.ids = arange(g.graph(), seq)})));
  }
  add_cached(model, decoder, "prefill", seq);
  add_cached(model, decoder, "decode", 1);
}

}  // namespace genesis::models
