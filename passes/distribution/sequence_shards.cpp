#include "passes/distribution/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/sharding/row_regions.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

class Sharder {
 public:
  Sharder(const Graph& graph, const FactorShard& shard, const RowRegions& regions)
      : graph_(graph), shard_(shard), regions_(regions), rewriter_(graph) {}

  // A sum over rows is complete only after it has been summed over the ranks. Nodes that read such sums, directly or
  // indirectly, are visited after all others, so that one exchange is enough for all sums.
  Graph run() {
    std::set<ValueId> late;  // values computed from a sum over rows
    std::vector<const Node*> waiting;
    for (const Node& node : graph_.nodes()) {
      const auto is_late = [&](ValueId id) { return late.contains(id) || sums_.contains(id); };
      if (std::any_of(node.inputs.begin(), node.inputs.end(), is_late)) {
        waiting.push_back(&node);
        late.insert(node.outputs.begin(), node.outputs.end());
      } else {
        visit(node);
      }
    }
    add_up_sums();
    for (const Node* node : waiting) {
      visit(*node);
      add_up_sums();
    }
    for (const NamedValue& output : graph_.outputs()) make_whole(output.value);
    for (const StateUpdate& update : graph_.updates()) make_whole(update.value);
    return rewriter_.finish();
  }

 private:
  void visit(const Node& node) {
    rewriter_.begin_nodes_from({&node});
    const RowWise* const rule = regions_.rule_of(node);
    const bool is_scattered = regions_.begins(node);
    if (is_scattered) scatter(node);
    if (rule) emit_shard(node, *rule);
    if (!is_scattered && !rule)
      for (const ValueId input : node.inputs) make_whole(input);
    rewriter_.end_nodes_from();
    if (!is_scattered && !rule) rewriter_.copy(node);
  }

  // Returns the tensor with its leading `dims` dimensions merged into one, the rows: a rank's shard is then a contiguous range.
  Value in_rows(Value whole, int dims) {
    const Shape& shape = whole.shape();
    std::vector<Dim> sizes(shape.begin() + dims, shape.end());
    sizes.insert(sizes.begin(), Dim(count_rows(shape, dims)));
    return reshape(whole, Shape(sizes));
  }
  // Returns a rank's rows in the shape of a shard of `whole`. `whole` is passed by value: adding a node may move the shape that
  // a reference would point to.
  Value as_shard(Value rows, Shape whole, int dims) {
    return reshape(rows, shape_of_rows(whole, dims, shard_.ranks));
  }

  void scatter(const Node& node) {
    const ValueId id = node.outputs[0];
    const int dims = regions_.row_dims(id);
    const Value sum = rewriter_.map(node.inputs[0]);
    shards_[id] = as_shard(reduce_scatter(in_rows(sum, dims), kTensorAxis, shard_.ranks), sum.shape(), dims);
    rewriter_.replace(node, {shards_[id]});
  }

  void emit_shard(const Node& node, const RowWise& rule) {
    std::vector<Value> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      operands.push_back(rule.operands[i] != kNoRows ? shard_of(node.inputs[i], rule.operands[i])
                                                     : rewriter_.map(node.inputs[i]));
    const std::vector<Value> results = emit_node(*node.op, rule.attributes, operands);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (rule.results[i] == kNoRows)
        sums_.insert(node.outputs[i]);
      else
        shards_[node.outputs[i]] = results[i];
    rewriter_.replace(node, results);
  }

  // Returns this rank's rows of a value, sliced from it if all ranks have the whole value.
  Value shard_of(ValueId id, int dims) {
    Value& shard = shards_[id];
    if (shard) return shard;
    const Shape& shape = graph_.type(id).shape;
    const int64_t rows = count_rows(shape, dims) / shard_.ranks, first = rows * shard_.place;
    return shard = as_shard(slice(in_rows(rewriter_.map(id), dims), 0, first, first + rows), shape, dims);
  }

  // Gathers a sharded value; nodes that are added from now on read it whole.
  void make_whole(ValueId id) {
    if (regions_.row_dims(id) == kNoRows || !wholes_.insert(id).second) return;
    const Shape& shape = graph_.type(id).shape;
    const ValueId first = regions_.in_first_shape(id);
    if (first != id) {
      make_whole(first);
      return rewriter_.replace(id, reshape(rewriter_.map(first), shape));
    }
    const int dims = regions_.row_dims(id);
    const Value shard = shards_.at(id);
    const bool is_cut_first = shard.rank() == shape.rank() && shard.dim(0) * Dim(shard_.ranks) == shape[0];
    const int shard_dims = shard.rank() - (shape.rank() - dims);
    const Value rows = is_cut_first ? shard : in_rows(shard, shard_dims);
    rewriter_.replace(id, reshape(all_gather(rows, kTensorAxis, shard_.ranks), shape));
  }

  // Sums the pending sums over all ranks, in one exchange.
  void add_up_sums() {
    if (sums_.empty()) return;
    std::vector<Value> own;
    std::vector<const Node*> from;
    for (const ValueId id : sums_) {
      own.push_back(rewriter_.map(id));
      from.push_back(producer(graph_, id));
    }
    rewriter_.begin_nodes_from(from);
    const std::vector<Value> all = all_reduce(own, kTensorAxis);
    rewriter_.end_nodes_from();
    size_t next = 0;
    for (const ValueId id : sums_) rewriter_.replace(id, all[next++]);
    sums_.clear();
  }

  const Graph& graph_;
  const FactorShard shard_;
  const RowRegions& regions_;
  Rewriter rewriter_;
  std::map<ValueId, Value> shards_;  // this rank's rows
  std::set<ValueId> wholes_;         // values that have been gathered
  std::set<ValueId> sums_;           // sums over this rank's rows that are not yet summed over the ranks
};

}  // namespace

Graph shard_sequence(const Graph& graph, const PassContext& context) {
  const FactorShard shard{context.mesh.size(kTensorAxis), context.mesh.place(context.rank, kTensorAxis)};
  if (shard.ranks == 1) return graph.share();
  const RowRegions regions(graph, context, shard);
  return regions.has_some() ? Sharder(graph, shard, regions).run() : graph.share();
}

}  // namespace genesis::passes
