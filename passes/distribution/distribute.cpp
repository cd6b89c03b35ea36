#include "passes/distribution/passes.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/embedding_rows.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// Inputs of one all_reduce or reduce_scatter that are exchanged together.
struct Bucket {
  const Node* node;
  std::vector<size_t> inputs;
};

class Distributor {
 public:
  Distributor(const Graph& graph, const PassContext& context)
      : graph_(graph),
        uses_(graph),
        mesh_(context.mesh),
        rank_(context.rank),
        bucket_bytes_(context.target_or_default().bucket_bytes),
        rewriter_(graph) {
    for (const Node& node : graph.nodes())
      if (is<ops::AllReduce>(node) && ranks_of(node) > 1) find_rows(node);
    for (const Node& node : graph.nodes())
      if (is<ops::AllReduce, ops::ReduceScatter>(node) && ranks_of(node) > 1) find_buckets(node);
  }

  Graph run() {
    emit_buckets_at(-1);
    for (const Node& node : graph_.nodes()) {
      visit(node);
      emit_buckets_at(id_of(graph_, node).index);
    }
    return rewriter_.finish();
  }

 private:
  // Returns the number of ranks that take part in the node. Fails if the node was made for another number.
  int64_t ranks_of(const Node& node) const {
    const std::string_view axis = axis_of(*node.op, node.attributes);
    const AttrValue* made_for = node.attributes.find("ranks");
    const int64_t there = mesh_.size(axis), expected = made_for ? std::get<int64_t>(*made_for) : there;
    if (there != expected)
      fail("node '{}' ({}) is for {} ranks along '{}', and the mesh has {} there", node.name, node.op->name(),
           expected, axis, there);
    return there;
  }

  // Returns the index of the node that makes a value; -1 if the value exists from the beginning.
  int32_t maker_of(ValueId value) const {
    const ValueInfo& info = graph_.value(value);
    return info.kind == ValueKind::kNode ? info.producer.index : -1;
  }

  void find_rows(const Node& node) {
    const auto all = match<ops::AllReduce>(node);
    if (all->reduction != RankReduction::kMean && all->reduction != RankReduction::kSum) return;
    for (const ValueId input : node.inputs)
      if (const RowsOfTable found = match_rows(graph_, uses_, input, ranks_of(node)))
        rows_.emplace(input, found);
  }

  // Returns the value that is reduced for an input; nothing if only rows of a table are exchanged for it.
  std::optional<ValueId> summed(ValueId input) const {
    const auto at = rows_.find(input);
    return at == rows_.end() ? input : at->second.dense;
  }

  void find_buckets(const Node& node) {
    std::vector<size_t> order;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (summed(node.inputs[i])) order.push_back(i);
    const auto maker_of_input = [&](size_t i) { return maker_of(*summed(node.inputs[i])); };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return maker_of_input(a) < maker_of_input(b); });
    Bucket bucket{&node, {}};
    int64_t bytes = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const ValueId input = *summed(node.inputs[order[i]]);
      const TensorType& type = graph_.type(input);
      bucket.inputs.push_back(order[i]);
      if (type.shape.is_constant()) bytes += type.bytes();
      if (bytes < bucket_bytes_ && i + 1 < order.size()) continue;
      buckets_[maker_of(input)].push_back(std::move(bucket));
      bucket = {&node, {}};
      bytes = 0;
    }
  }

  void emit_buckets_at(int32_t maker) {
    const auto at = buckets_.find(maker);
    if (at == buckets_.end()) return;
    for (const Bucket& bucket : at->second) {
      const Node& node = *bucket.node;
      std::vector<Value> values;
      for (const size_t i : bucket.inputs) values.push_back(rewriter_.map(*summed(node.inputs[i])));
      rewriter_.begin_nodes_from({&node});
      const std::vector<Value> results = emit_node(*node.op, node.attributes, values);
      rewriter_.end_nodes_from();
      std::vector<Value>& all = results_[&node];
      all.resize(node.inputs.size());
      for (size_t i = 0; i < results.size(); ++i) all[bucket.inputs[i]] = results[i];
    }
  }

  void visit(const Node& node) {
    if (const auto all = match<ops::AllReduce>(node)) add_rows(all);
    if (const auto at = results_.find(&node); at != results_.end())
      return rewriter_.replace(node, at->second);
    if (node.op->info.collective && ranks_of(node) == 1)
      return rewriter_.replace(node, rewriter_.map(node.inputs));
    if (node.op->info.random) {
      const Value before = rewriter_.map(node.inputs[0]);
      rewriter_.replace(node.inputs[0], own_draws(before));
      rewriter_.copy(node);
      return rewriter_.replace(node.inputs[0], before);
    }
    rewriter_.copy(node);
  }

  // Adds the rows of all ranks to the table, on every rank.
  void add_rows(const Matched<ops::AllReduce>& all) {
    for (size_t i = 0; i < all.num_inputs(); ++i) {
      const auto at = rows_.find(all.input(i));
      if (at == rows_.end()) continue;
      const Node& table = *at->second.rows.node;
      rewriter_.begin_nodes_from({all.node, &table});
      const Value sum =
          table_of_all_ranks(rewriter_, at->second, all->axis, ranks_of(*all.node), all->reduction);
      std::vector<Value>& results = results_[all.node];
      results.resize(all.num_inputs());
      results[i] = at->second.dense ? results[i] + sum : sum;
      rewriter_.end_nodes_from();
    }
  }

  // Returns the state {seed, step} of the random numbers with a different seed on each rank along "data", because ranks have
  // different samples, for which dropout should differ. The stored state stays the same on all ranks.
  Value own_draws(Value rng) {
    const int64_t place = mesh_.place(rank_, kDataAxis);
    if (place == 0) return rng;
    constexpr uint64_t kApart = 0x9E3779B97F4A7C15;  // the golden ratio's bits: far from every small seed
    const auto offset = static_cast<int64_t>(kApart * static_cast<uint64_t>(place));
    if (!offset_) {
      const int32_t tensor = graph_.model().add_tensor("rank_seed", Tensor::of<int64_t>({2}, {offset, 0}));
      offset_ = rewriter_.graph().constant(tensor);
    }
    return rng + offset_;
  }

  const Graph& graph_;
  const Uses uses_;
  const Mesh& mesh_;
  const int64_t rank_, bucket_bytes_;
  Rewriter rewriter_;
  Value offset_;
  std::map<ValueId, RowsOfTable> rows_;             // by value that is reduced
  std::map<int32_t, std::vector<Bucket>> buckets_;  // by the node that makes their last tensor
  std::map<const Node*, std::vector<Value>> results_;
};

}  // namespace

Graph distribute(const Graph& graph, const PassContext& context) {
  const bool has_some = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const Node& node) { return node.op->info.collective; });
  return has_some ? Distributor(graph, context).run() : graph.share();
}

}  // namespace genesis::passes
