#include "models/generation/verify_entries.h"

#include <functional>
#include <set>

#include "builder/genesis.h"
#include "executor/generation/entry_points.h"
#include "executor/generation/rewinding.h"
#include "models/generation/wide_head.h"
#include "passes/core/cache_size.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "schema/graph/caches.h"
#include "schema/ops/nn/quantized_cache.h"

namespace genesis::text {
namespace {

using generation::found_entry;
using generation::positions_of_cache;
using generation::rows_of_cache;
using generation::verify_name;

// Returns `decode` alone, for a cache of so many rows.
std::unique_ptr<Model> wide_decode(const Model& model, int64_t rows) {
  const std::unique_ptr<Model> only = Model::with_tables_of(model);
  only->replace_entry(copy_graph(found_entry(model, "decode"), *only));
  return passes::with_cache_size(*only, {rows, positions_of_cache(model)});
}

class VerifyEntry {
 public:
  VerifyEntry(Model& model, int64_t tokens, bool exact)
      : model_(model),
        rows_(rows_of_cache(model)),
        tokens_(tokens),
        exact_(exact),
        wide_(wide_decode(model, rows_ * tokens)),
        decode_(wide_->entry("decode")),
        head_(rounding_head(decode_)) {}

  void add() {
    GraphBuilder g(model_, verify_name(tokens_));
    Graph& graph = g.graph();
    const Value tokens = g.input("tokens", DType::i64, {rows_, tokens_});
    position_ = g.input("position", DType::i64, {rows_});
    length_ = g.input("length", DType::i64, {rows_});
    // Padding gets the position of the last token, so that no position lies beyond the text.
    const Value index = minimum(arange(graph, tokens_), maximum(unsqueeze(length_, 1) - 1, 0));
    const Value places = reshape(unsqueeze(position_, 1) + index, {rows_ * tokens_});
    const passes::InlinedGraph part = passes::inline_graph(
        graph, decode_, {reshape(tokens, {rows_ * tokens_, 1}), places}, {},
        [&](const Node& node, const std::vector<Value>& of) { return replaced(node, of); });
    for (const auto& [state, value] : part.updates) graph.add_update(state, value);
    g.output("token", reshape(chosen(graph, part.outputs.at("logits"), places), {rows_, tokens_}));
  }

 private:
  bool is_cache(ValueId id) const {
    const ValueInfo& value = decode_.value(id);
    if (value.kind == ValueKind::kState) return cache_layout(model_.state(value.index)).has_value();
    return caches_.contains(id.index);
  }

  Value replaced(const Node& node, const std::vector<Value>& of) {
    if (&node == head_) return widened_head(node, of);
    bool reads_cache = false;
    for (const ValueId id : node.inputs) reads_cache |= is_cache(id);
    if (!reads_cache) return {};
    if (const auto update = passes::match<ops::DynamicUpdateSlice>(node); update && update->axis == 1) {
      caches_.insert(node.outputs[0].index);
      return appended(of[0], of[1]);
    }
    if (const auto quantized = passes::match<ops::QuantizedAttention>(node))
      return attended(of[0], of[2].dim(3), [&](Value q, Value length) {
        return quantized_attention(q, {of[1], of[3]}, {of[2], of[4]}, length, quantized.attributes);
      });
    const auto attention = passes::match<ops::Attention>(node);
    if (!attention || attention->packed() || attention->has_mask || attention->has_key_start ||
        !attention->has_key_length || attention->layout != AttentionLayout::kBTHD)
      fail(
          "drafts cannot be verified: node '{}' of 'decode', {}, reads the cache, which only attention can "
          "do here",
          node.name, node.op->info.name);
    return attended(of[0], of[2].dim(3), [&](Value q, Value length) {
      return genesis::attention(q, of[1], of[2], attention.attributes, {}, length);
    });
  }

  // Writes the keys or values of all tokens, [rows * tokens, 1, ...], to the cache.
  Value appended(Value cache, Value update) const {
    std::vector<Dim> sizes = update.shape().dims();
    sizes[0] = rows_, sizes[1] = tokens_;
    return dynamic_update_slice(cache, reshape(update, Shape(sizes)), position_, 1,
                                rows_ > 1 ? length_ : Value());
  }

  // Attends to the keys in front of each token: `attend` takes queries [rows, tokens, heads, size] and the number of keys that
  // each row's last query sees.
  Value attended(Value q, const Dim& v_size,
                 const std::function<Value(Value q, Value length)>& attend) const {
    const Dim heads = q.dim(2), size = q.dim(3);
    const Value queries = reshape(q, {rows_, tokens_, heads, size});
    const int64_t at_once = queries_at_once(size, v_size);
    std::vector<Value> parts;
    for (int64_t first = 0; first < tokens_; first += at_once) {
      const int64_t end = std::min(first + at_once, tokens_);
      const Value part = at_once < tokens_ ? slice(queries, 1, first, end) : queries;
      parts.push_back(attend(part, position_ + end));
    }
    const Value all = parts.size() == 1 ? parts[0] : concat(parts, 1);
    return reshape(all, {rows_ * tokens_, 1, heads, v_size});
  }

  // The CPU's attention of few queries takes head sizes that are multiples of 16; other sizes are computed query by query.
  int64_t queries_at_once(const Dim& size, const Dim& v_size) const {
    if (!exact_) return tokens_;
    return size.value() % 16 == 0 && v_size.value() % 16 == 0 ? kQueriesLikeOne : 1;
  }

  Value state(Graph& graph, const char* name) const {
    return graph.state(model_.find_state(std::string("sampling.") + name));
  }

  // Returns a setting of each row for all of its tokens.
  Value of_tokens(Value setting) const {
    if (rows_ == 1) return setting;
    return reshape(expand(unsqueeze(setting, 1), {rows_, tokens_}), {rows_ * tokens_});
  }

  // Chooses the token behind each place as decode_and_sample does.
  Value chosen(Graph& graph, Value logits, Value places) const {
    const Value seed = select(state(graph, "rng"), 0, 0);
    const Value seeds = rows_ == 1 ? expand(reshape(seed, {1}), {tokens_}) : of_tokens(seed);
    return sample_logits(stack({seeds, places}), logits, of_tokens(state(graph, "temperature")),
                         of_tokens(state(graph, "top_k")), of_tokens(state(graph, "top_p")),
                         of_tokens(state(graph, "min_p")));
  }

  Model& model_;
  const int64_t rows_, tokens_;
  const bool exact_;
  const std::unique_ptr<Model> wide_;  // `decode` for rows * tokens rows
  const Graph& decode_;
  const Node* const head_;
  Value position_, length_;
  std::set<int32_t> caches_;  // values of decode_ that are caches with the new tokens
};

}  // namespace

std::shared_ptr<const Model> with_verify_entries(const std::shared_ptr<const Model>& model, bool exact) {
  if (model->find_entry(verify_name(2))) return model;
  if (generation::takes_text_length(*model))
    fail("drafts cannot be verified: the model's rotary frequencies depend on the length of the text");
  if (!generation::can_rewind(*model))
    fail(
        "drafts cannot be verified: the model's recurrent states cannot go back to the last token that was "
        "right");
  const auto with = std::make_shared<Model>(*model);
  for (int64_t tokens = 2; tokens <= generation::kMaxVerified; tokens *= 2)
    with_context([&] { VerifyEntry(*with, tokens, exact).add(); },
                 [&] { return "while entry point '" + verify_name(tokens) + "' is made from 'decode'"; });
  return with;
}

}  // namespace genesis::text
