#include "models/generation/packed_prompts.h"

#include <algorithm>
#include <set>

#include "builder/genesis.h"
#include "executor/generation/entry_points.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "schema/graph/caches.h"
#include "schema/ops/tensor/dynamic_slice.h"

namespace genesis::text {
namespace {

using generation::kFillPacked;
using generation::kPackedTexts;

// Writes prefill_row, tokens [1, seq] of one text behind `position` others, for tokens of several texts that all begin here. What a layer
// appends to the cache is all that its queries can see, so that the cache is only written.
class PackedPrompts {
 public:
  PackedPrompts(Model& model, const Graph& from)
      : model_(model), from_(from), g_(model, kFillPacked), seq_(symbol("seq")) {
    const Shape each = {1, seq_}, texts = {kPackedTexts};
    tokens_ = g_.input("tokens", DType::i64, each);
    positions_ = g_.input("position", DType::i64, each);
    first_ = g_.input("first", DType::i64, each);
    begin_ = g_.input("begin", DType::i64, texts);
    length_ = g_.input("length", DType::i64, texts);
    place_ = g_.input("place", DType::i64, texts);
  }

  // Returns false if the graph cannot be written in this way.
  bool add() {
    if (from_.inputs().size() != 4) return false;  // it takes the lengths of texts, too
    // The place of one text. The graph must not depend on it.
    const Value position = one_zero(), length = one_zero(), row = reshape(one_zero(), {});
    const passes::InlinedGraph part = passes::inline_graph(
        g_, from_, {tokens_, position, length, row}, {},
        [&](const Node& node, const std::vector<Value>& of) { return replaced(node, of); });
    std::set<int32_t> updated;
    for (const auto& [state, value] : part.updates) {
      g_.graph().add_update(state, value);
      updated.insert(state);
    }
    for (int32_t i = 0; i < static_cast<int32_t>(model_.states().size()); ++i)
      if (cache_layout(model_.state(i)) && !updated.contains(i)) return false;
    return positions_found_ == 1 && caches_are_alike_ && !needs(position) && !needs(length) && !needs(row);
  }

 private:
  Value one_zero() const { return g_.full({1}, 0, DType::i64); }

  bool is_cache(ValueId id) const {
    const ValueInfo& value = from_.value(id);
    if (value.kind != ValueKind::kState) return false;
    const auto layout = cache_layout(model_.state(value.index));
    return layout && layout->rows_axis == 0 && layout->positions_axis == 1;
  }

  Value replaced(const Node& node, const std::vector<Value>& of) {
    if (const auto update = passes::match<ops::DynamicUpdateSlice>(node)) {
      if (update->axis == 1 && is_row_of_cache(node.inputs[0])) return appended(node, of[1]);
      if (update->axis == 0 && is_cache(node.inputs[0]) && appended_.contains(node.inputs[1].index))
        return written(of[0], of[1]);
    }
    if (const auto attention = passes::match<ops::Attention>(node)) {
      const bool reads_new_tokens = !attention->packed() && appended_.contains(node.inputs[1].index) &&
                                    appended_.contains(node.inputs[2].index);
      // Without `causal`, a token would see the texts behind its own.
      if (reads_new_tokens && attention->causal && attention->has_key_length && !attention->has_mask &&
          !attention->has_key_start)
        return genesis::attention(of[0], of[1], of[2], attention.attributes, {}, {}, first_);
    }
    if (!is_positions(node)) return {};
    ++positions_found_;
    return positions_;
  }

  bool is_row_of_cache(ValueId id) const {
    const auto row = passes::match<ops::DynamicSlice>(from_, id);
    return row && row->axis == 0 && is_cache(row.input(0));
  }

  // The positions of the tokens, of which prefill_row takes those beyond its text to be that of the last one. A model may limit its
  // tokens in the same way.
  bool is_positions(const Node& node) const {
    if (node.op->info.name != "maximum") return false;
    const TensorType& type = from_.type(node.outputs[0]);
    const ValueId tokens = from_.inputs()[0], position = from_.inputs()[1];
    return type.dtype == DType::i64 && type.shape == from_.type(tokens).shape && needs(node, position) &&
           !needs(node, tokens);
  }

  bool needs(const Node& node, ValueId input) const {
    const std::vector<bool> needed = passes::needed_by(from_, {passes::id_of(from_, node)});
    for (size_t i = 0; i < needed.size(); ++i)
      if (needed[i] && std::ranges::count(from_.nodes()[i].inputs, input) > 0) return true;
    return false;
  }

  Value appended(const Node& node, Value tokens) {
    appended_.insert(node.outputs[0].index);
    return tokens;
  }

  // Writes the tokens of each text [1, seq, ...] to its row of the cache.
  Value written(Value cache, Value tokens) {
    const Shape shape = cache.shape();
    const int64_t rows = shape[0].value(), positions = shape[1].value();
    const auto size = cache_size(model_);
    caches_are_alike_ &= size && rows == size->rows && positions == size->positions;
    if (places_.empty()) find_places();
    std::vector<Dim> flat = shape.dims();
    flat[0] = 1, flat[1] = rows * positions;
    Value all = reshape(cache, Shape(flat));
    for (size_t i = 0; i < places_.size(); ++i)
      all = dynamic_update_slice(all, index_select(tokens, 1, indices_[i]), places_[i], 1, lengths_[i]);
    return reshape(all, shape);
  }

  // Tokens behind a text's own are not written, so that any will do.
  void find_places() {
    const Value offsets = arange(g_.graph(), seq_), last = dim_value(g_.graph(), seq_) - 1;
    for (int64_t i = 0; i < kPackedTexts; ++i) {
      indices_.push_back(minimum(offsets + slice(begin_, 0, i, i + 1), last));
      places_.push_back(slice(place_, 0, i, i + 1));
      lengths_.push_back(slice(length_, 0, i, i + 1));
    }
  }

  bool needs(Value value) const {
    const Node* node = passes::producer(g_.graph(), value.id);
    return passes::live_nodes(g_.graph())[static_cast<size_t>(passes::id_of(g_.graph(), *node).index)];
  }

  Model& model_;
  const Graph& from_;
  GraphBuilder g_;
  const Dim seq_;
  Value tokens_, positions_, first_, begin_, length_, place_;
  std::set<int32_t> appended_;  // values of `from` that are rows of the cache with new tokens
  int positions_found_ = 0;
  bool caches_are_alike_ = true;
  std::vector<Value> indices_, places_,
      lengths_;  // by text: its tokens, their place in the cache, their number
};

}  // namespace

std::shared_ptr<const Model> packed_prompts(const Model& model) {
  const auto packed = std::make_shared<Model>(model);
  for (const auto& entry : model.entries())
    if (entry->name() != "prefill_row") packed->remove_entry(entry->name());
  const Graph* from = packed->find_entry("prefill_row");
  if (!from || !PackedPrompts(*packed, *from).add()) return nullptr;
  packed->remove_entry("prefill_row");
  return packed;
}

}  // namespace genesis::text
