#include "passes/distribution/passes.h"

#include <algorithm>
#include <limits>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/core/update_inputs.h"
#include "passes/distribution/embedding_rows.h"
#include "passes/distribution/optimizer_shards.h"
#include "passes/distribution/sharded_updates.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

class Sharder {
 public:
  Sharder(const Graph& graph, const PassContext& context)
      : graph_(graph),
        ranks_(context.mesh.size(kDataAxis)),
        place_(context.mesh.place(context.rank, kDataAxis)),
        uses_(graph),
        averaged_(averaged_values(graph)),
        rewriter_(graph),
        updates_(graph, context, rewriter_) {
    find_scattered();
    if (context.zero >= 2) micro_batches_ = count_micro_batches();
    for_averages([&](const Node& node, size_t i) {
      if (micro_batches_ == 1 && graph_.type(node.inputs[i]).shape[0].value() % ranks_ == 0)
        if (const RowsOfTable found = match_rows(graph_, uses_, node.inputs[i], ranks_))
          rows_.emplace(node.inputs[i], found);
      for (const ValueId term : terms_of(node.inputs[i])) travels_flat_.insert(term);
    });
  }

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (updates_.is_awaited_by(node)) finish_updates();
      rewriter_.begin_nodes_from({&node});
      visit(node);
      for (const ValueId output : node.outputs)
        if (travels_flat_.contains(output)) flat(output);
      rewriter_.end_nodes_from();
    }
    finish_updates();
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  void finish_updates() {
    updates_.finish();
    rewriter_.end_nodes_from();
  }

  // Finds the averaged values of which only this rank's shard is needed. Goes from the last node to the first: if a value is
  // computed elementwise from another one, the latter needs only a shard if this holds for the former.
  void find_scattered() {
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node)
      for (size_t i = 0; i < node->outputs.size(); ++i) {
        const ValueId value = node->outputs[i];
        if (!averaged_.contains(value) || !needs_shard_only(value)) continue;
        scattered_.insert(value);
      }
  }

  // Calls body(node, index of an input) for the inputs of exchanges of which this rank needs only its shard.
  template <class Body>
  void for_averages(const Body& body) const {
    for (const Node& node : graph_.nodes())
      if (is<ops::AllReduce>(node))
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (scattered_.contains(node.outputs[i])) body(node, i);
  }

  bool needs_shard_only(ValueId value) const {
    const std::vector<NodeId>& readers = uses_.readers(value);
    int reads = 0;
    for (const NodeId id : readers) {
      const Node& reader = graph_.node(id);
      reads += static_cast<int>(std::count(reader.inputs.begin(), reader.inputs.end(), value));
      if (!is<ops::SumSquares>(reader) && !updates_.contains(reader) &&
          !(reader.outputs.size() == 1 && scattered_.contains(reader.outputs[0])))
        return false;
    }
    return !readers.empty() && reads == uses_.count(value) && is_divided(graph_.type(value), ranks_);
  }

  void visit(const Node& node) {
    if (norms_.contains(&node)) return;
    if (is<ops::SumSquares>(node) && has_shards(node)) return emit_norms(node);
    if (updates_.contains(node))
      return updates_.emit(node, shard_of(node.inputs[update_inputs(node).gradient]));
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId output) { return scattered_.contains(output); }))
      return rewriter_.copy(node);
    if (is<ops::AllReduce>(node)) return emit_average(node);
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs)
      inputs.push_back(scattered_.contains(input) ? shard_of(input) : rewriter_.map(input));
    shards_[node.outputs[0]] = emit_node(*node.op, node.attributes, inputs)[0];
    rewriter_.replace(node, {Value()});
  }

  Value flat(ValueId value) {
    Value& made = flat_[value];
    if (!made) made = reshape(rewriter_.map(value), Shape{graph_.type(value).shape.numel()});
    return made;
  }

  // Returns this rank's shard, flat.
  Value shard_of(ValueId value) {
    Value& made = shards_[value];
    const int64_t count = graph_.type(value).numel() / ranks_;
    if (!made) made = narrow(flat(value), 0, Dim(place_ * count), Dim(count));
    return made;
  }

  // Returns the values that are exchanged to average `gradient`: itself or, from stage 2 on, the gradients of the micro-batches
  // that it is the sum of, before they are widened for the sum.
  std::vector<ValueId> terms_of(ValueId gradient) const {
    std::vector<ValueId> terms;
    if (const auto at = rows_.find(gradient); at != rows_.end()) {
      if (at->second.dense) terms.push_back(*at->second.dense);
      return terms;
    }
    while (static_cast<int64_t>(terms.size()) + 1 < micro_batches_) {
      const Node& sum = *sum_at(gradient);
      terms.push_back(unwidened(sum.inputs[1]));
      gradient = sum.inputs[0];
    }
    terms.push_back(micro_batches_ > 1 ? unwidened(gradient) : gradient);
    std::reverse(terms.begin(), terms.end());
    return terms;
  }

  // Returns the number of summands that every gradient ((first + second) + ...) has at least; one gradient may have more, if it
  // is itself a sum in a micro-batch.
  int64_t count_micro_batches() const {
    int64_t fewest = scattered_.empty() ? 1 : std::numeric_limits<int64_t>::max();
    for_averages(
        [&](const Node& node, size_t i) { fewest = std::min(fewest, length_of_sum(node.inputs[i])); });
    return fewest;
  }

  int64_t length_of_sum(ValueId value) const {
    const Node* sum = sum_at(value);
    return sum ? 1 + length_of_sum(sum->inputs[0]) : 1;
  }

  const Node* sum_at(ValueId value) const {
    const auto sum = match_sole<ops::Add>(graph_, uses_, value);
    const auto has_its_shape = [&](ValueId id) { return graph_.type(id) == graph_.type(value); };
    return sum && std::all_of(sum.node->inputs.begin(), sum.node->inputs.end(), has_its_shape) ? sum.node
                                                                                               : nullptr;
  }

  ValueId unwidened(ValueId value) const {
    const auto cast = match_sole<ops::Cast>(graph_, uses_, value);
    const bool widens = cast && is_float(graph_.type(cast.input(0)).dtype) &&
                        size_of(graph_.type(cast.input(0)).dtype) < size_of(graph_.type(value).dtype);
    return widens ? cast.input(0) : value;
  }

  // Averages some inputs whole, and scatters the others.
  void emit_average(const Node& node) {
    std::vector<Value> whole;
    std::vector<size_t> shared;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (scattered_.contains(node.outputs[i]))
        shared.push_back(i);
      else
        whole.push_back(rewriter_.map(node.inputs[i]));
    if (!whole.empty()) whole = all_reduce(whole, kDataAxis, RankReduction::kMean);
    for (int64_t k = 0; k < micro_batches_; ++k) add_micro_batch(node, shared, static_cast<size_t>(k));
    for (const size_t i : shared)
      if (rows_.contains(node.inputs[i])) add_rows(node, i);
    std::vector<Value> results(node.outputs.size());
    for (size_t i = 0, w = 0; i < results.size(); ++i)
      if (!scattered_.contains(node.outputs[i])) results[i] = whole[w++];
    rewriter_.replace(node, results);
  }

  // Exchanges each micro-batch by itself, so that no gradient waits for the next one.
  void add_micro_batch(const Node& average, const std::vector<size_t>& shared, size_t number) {
    std::vector<Value> terms;
    std::vector<size_t> inputs;
    for (const size_t i : shared) {
      const std::vector<ValueId> all = terms_of(average.inputs[i]);
      if (number >= all.size()) continue;  // rows of a table only
      terms.push_back(flat(all[number]));
      inputs.push_back(i);
    }
    if (!terms.empty()) terms = reduce_scatter(terms, kDataAxis, ranks_, RankReduction::kMean);
    for (size_t t = 0; t < terms.size(); ++t) {
      Value& sum = shards_[average.outputs[inputs[t]]];
      const Value term = cast(terms[t], graph_.type(average.inputs[inputs[t]]).dtype);
      sum = sum ? sum + term : term;
    }
  }

  void add_rows(const Node& average, size_t input) {
    const ValueId gradient = average.inputs[input];
    Value rows = table_shard_of_all_ranks(rewriter_, rows_.at(gradient), kDataAxis, ranks_, place_,
                                          RankReduction::kMean);
    Value& sum = shards_[average.outputs[input]];
    if (sum) rows = reshape(sum, rows.shape()) + rows;
    sum = reshape(rows, Shape{rows.shape().numel()});
  }

  bool is_shared(ValueId value) const {
    return averaged_.contains(value) && is_divided(graph_.type(value), ranks_);
  }
  bool has_shards(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_shared(v); });
  }

  // Returns the norms after `first` whose inputs are all computed before it, so that one exchange sums all of them.
  std::vector<const Node*> norms_from(const Node& first) const {
    const int32_t here = id_of(graph_, first).index;
    const auto is_there = [&](ValueId value) {
      const ValueInfo& info = graph_.value(value);
      return info.kind != ValueKind::kNode || info.producer.index < here;
    };
    std::vector<const Node*> norms;
    for (size_t i = static_cast<size_t>(here); i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is<ops::SumSquares>(node) && has_shards(node) &&
          std::all_of(node.inputs.begin(), node.inputs.end(), is_there))
        norms.push_back(&node);
    }
    return norms;
  }

  void emit_norms(const Node& first) {
    const std::vector<const Node*> norms = norms_from(first);
    std::vector<Value> sums;
    for (const Node* node : norms) {
      std::vector<Value> shared;
      for (const ValueId input : node->inputs)
        if (is_shared(input)) shared.push_back(shard_of(input));
      sums.push_back(emit_node(*node->op, node->attributes, shared)[0]);
    }
    sums = all_reduce(sums, kDataAxis);
    for (size_t i = 0; i < norms.size(); ++i) {
      std::vector<Value> whole;
      for (const ValueId input : norms[i]->inputs)
        if (!is_shared(input)) whole.push_back(rewriter_.map(input));
      if (!whole.empty()) sums[i] = sums[i] + emit_node(*norms[i]->op, norms[i]->attributes, whole)[0];
      rewriter_.replace(*norms[i], {sums[i]});
      norms_.insert(norms[i]);
    }
  }

  const Graph& graph_;
  const int64_t ranks_, place_;
  const Uses uses_;
  const std::set<ValueId> averaged_;
  Rewriter rewriter_;
  ShardedUpdates updates_;
  int64_t micro_batches_ = 1;            // number of micro-batches whose gradients are exchanged one by one
  std::map<ValueId, RowsOfTable> rows_;  // by the gradient that is averaged
  std::set<ValueId> scattered_;          // averaged values of which this rank has only its shard
  std::set<ValueId> travels_flat_;       // the summands of these averages
  std::map<ValueId, Value> flat_, shards_;
  std::set<const Node*> norms_;  // norms that have been emitted
};

}  // namespace

Graph shard_optimizer(const Graph& graph, const PassContext& context) {
  if (context.mesh.size(kDataAxis) == 1 || averaged_values(graph).empty()) return graph.share();
  return Sharder(graph, context).run();
}

}  // namespace genesis::passes
