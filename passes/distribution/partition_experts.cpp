#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/global_rows.h"
#include "passes/distribution/passes.h"
#include "passes/distribution/rank_sizes.h"
#include "passes/distribution/sharding/factors.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::passes {
namespace {

// The part of an old value that the new graph has.
enum class Kept : uint8_t {
  kOwn,       // the same value, of this rank's tokens
  kExperts,   // the shard of this rank's experts, along the first dimension
  kRows,      // rows of the pairs of all tokens, of which those with this rank's experts are valid
  kZeroRows,  // the same, and the others are zeros, so that the ranks' values add up to the whole
};

// A head has many more results than operands. Smaller layers save less than an exchange makes ranks wait for each other.
constexpr int64_t kMinResultsPerOperand = 8;

class ExpertPartitioner {
 public:
  ExpertPartitioner(const Graph& graph, const PassContext& context)
      : graph_(graph),
        shard_{context.mesh.size(kExpertShardAxis), context.mesh.place(context.rank, kExpertShardAxis)},
        tensor_ranks_(context.mesh.size(kTensorAxis)),
        sharing_(batch_parts(graph, context.mesh) > 1 ? context.mesh.size(kExpertAxis) : 1),
        target_(context.target_or_default()),
        rewriter_(graph),
        all_(graph, rewriter_, sharing_),
        kept_(graph.values().size(), Kept::kOwn) {
    for (const StoredGroup& group : context.storage->groups)
      if (group.shard && group.shard->axis == kExpertShardAxis) shards_[group.members[0]] = group.parts[0];
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const auto shard = shards_.find(state_of(graph, id));
      if (shard == shards_.end()) continue;
      rewriter_.replace(id, rewriter_.graph().state(shard->second));
      kept(id) = Kept::kExperts;
    }
    for (const Node& node : graph.nodes())
      if (is<ops::IndexSelect>(node) && !all_.varies(node.inputs[0]))
        indices_of_biases_.insert(node.inputs[1]);
  }

  Graph run() {
    for (const Node& node : graph_.nodes()) visit(node);
    for (const NamedValue& output : graph_.outputs()) rewriter_.replace(output.value, whole(output.value));
    for (const StateUpdate& update : graph_.updates()) {
      const auto shard = shards_.find(update.state);
      if (shard == shards_.end()) {
        rewriter_.replace(update.value, whole(update.value));
        continue;
      }
      rewriter_.drop_update(update.state);
      rewriter_.graph().add_update(shard->second, own_experts(update.value));
    }
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  Kept& kept(ValueId id) { return kept_[static_cast<size_t>(id.index)]; }
  bool has_rows(ValueId id) { return kept(id) == Kept::kRows || kept(id) == Kept::kZeroRows; }
  bool has_experts(ValueId id) { return kept(id) == Kept::kExperts; }
  template <class Has>
  bool any_input(const Node& node, const Has& has) {
    return std::ranges::any_of(node.inputs, has);
  }

  void visit(const Node& node) {
    const bool is_grouped = is<ops::GroupedMatmul, ops::GroupedMatmulGrad>(node);
    const bool of_rows = any_input(node, [&](ValueId id) { return has_rows(id); });
    if (!is_grouped && !of_rows && !any_input(node, [&](ValueId id) { return has_experts(id); })) {
      if (!can_share_head(node)) return rewriter_.copy(node);
      rewriter_.begin_nodes_from({&node});
      rewriter_.replace(node, {shared_head(node)});
      return rewriter_.end_nodes_from();
    }
    rewriter_.begin_nodes_from({&node});
    if (is_grouped)
      emit_grouped(node);
    else if (of_rows)
      emit_rows(node);
    else
      emit_experts(node);
    rewriter_.end_nodes_from();
  }

  void replace(const Node& node, const std::vector<Value>& values, Kept as) {
    rewriter_.replace(node, values);
    for (const ValueId output : node.outputs) kept(output) = as;
  }
  [[noreturn]] void refuse(const Node& node) const {
    fail("node '{}' ({}): ranks along 'expert' cannot compute it for the rows of their own experts",
         node.name, node.op->name());
  }

  // --- the logits of a decoding step, whose weight takes longer to read than they take to exchange

  // Returns the rows of a state, maybe encoded, that a value holds; 0 if it is none.
  int64_t rows_of_state(ValueId weight) const {
    const auto decoded = match<ops::Dequantize>(graph_, weight);
    return state_of(graph_, decoded ? decoded.input(0) : weight) < 0 ? 0
                                                                     : graph_.type(weight).shape[0].value();
  }

  // Returns true if ranks that have the same tokens should each compute a part of the layer's results.
  bool can_share_head(const Node& node) const {
    const auto layer = match<ops::Linear>(node);
    if (sharing_ > 1 || tensor_ranks_ > 1 || !layer || !layer->is_unquantized_product() ||
        layer.num_inputs() != 2)
      return false;
    const int64_t rows = rows_of_state(layer.input(1));
    const Shape& x = graph_.type(node.inputs[0]).shape;
    if (rows % shard_.ranks != 0 || rows < kMinResultsPerOperand * x[x.rank() - 1].value()) return false;
    const auto decoded = match<ops::Dequantize>(graph_, layer.input(1));
    const TensorType& stored = graph_.type(decoded ? decoded.input(0) : layer.input(1));
    const double others = 1 - 1 / static_cast<double>(shard_.ranks);
    const auto result = static_cast<double>(graph_.type(node.outputs[0]).bytes());
    const double exchange = exchange_time(link_of(target_), 1, others * result);
    return others * seconds_to_move(target_, stored.bytes()) > exchange;
  }

  Value shared_head(const Node& node) {
    const auto decoded = match<ops::Dequantize>(graph_, node.inputs[1]);
    const int64_t count = graph_.type(node.inputs[1]).shape[0].value() / shard_.ranks;
    const auto own = [&](ValueId part) {
      return slice(rewriter_.map(part), 0, shard_.place * count, (shard_.place + 1) * count);
    };
    const Value weight =
        decoded ? dequantize(decoded->format, own(decoded.input(0)), own(decoded.input(1)), decoded->dtype)
                : own(node.inputs[1]);
    const Value x = rewriter_.map(node.inputs[0]);
    const Value part = emit_node(*node.op, node.attributes, {x, weight})[0];
    const Shape& shape = graph_.type(node.outputs[0]).shape;
    const int64_t rows = shape.numel().value() / (count * shard_.ranks);
    const Value all = all_gather(reshape(part, {1, rows, count}), kExpertShardAxis, shard_.ranks);
    return reshape(permute(all, {1, 0, 2}), shape);
  }

  // --- rows of pairs of a token and an expert

  void emit_grouped(const Node& node) {
    const bool is_gradient = is<ops::GroupedMatmulGrad>(node);
    const size_t last = node.inputs.size() - 1;
    std::vector<Value> operands = {rows(node.inputs[0])};
    for (size_t i = 1; i < last; ++i)
      operands.push_back(is_gradient ? rows(node.inputs[i]) : own_experts(node.inputs[i]));
    operands.push_back(own_offsets(node.inputs[last]));
    replace(node, emit_node(*node.op, node.attributes, operands),
            is_gradient ? Kept::kExperts : Kept::kZeroRows);
  }

  // Returns the rows of all tokens' pairs.
  Value rows(ValueId id) { return has_rows(id) ? rewriter_.map(id) : all_.of(id); }

  // Returns the offsets of this rank's experts. A grouped product gives zeros in the rows before and behind them.
  Value own_offsets(ValueId id) {
    Value& own = offsets_[id];
    const int64_t count = (graph_.type(id).shape[0].value() - 1) / shard_.ranks;
    if (!own) own = slice(all_.of(id), 0, shard_.place * count, (shard_.place + 1) * count + 1);
    return own;
  }

  // Returns the part of a value with one entry of its first dimension for each expert.
  Value own_experts(ValueId id) {
    const Value value = rewriter_.map(id);
    if (has_experts(id)) return value;
    const int64_t count = value.dim(0).value() / shard_.ranks;
    return slice(value, 0, shard_.place * count, (shard_.place + 1) * count);
  }

  // Returns the biases of the pairs' experts, and zeros for experts of other ranks; empty if the value is none.
  Value own_biases(ValueId id) {
    const Node* node = producer(graph_, id);
    if (!node || has_rows(id)) return {};
    if (is<ops::Reshape>(*node)) {
      const Value biases = own_biases(node->inputs[0]);
      return biases ? all_.reshaped(*node, biases) : Value();
    }
    if (!is<ops::IndexSelect>(*node) || !indices_of_biases_.contains(node->inputs[1])) return {};
    return emit(ops::Embedding{.part = range_of(graph_.type(node->inputs[0]).shape[0].value())},
                {all_.of(node->inputs[1]), own_experts(node->inputs[0])});
  }
  ops::IndexRange range_of(int64_t experts) const {
    return {shard_.place * (experts / shard_.ranks), experts};
  }

  void emit_rows(const Node& node) {
    if (node.op->info.elementwise || is<ops::Swiglu, ops::SwigluGrad>(node)) return emit_by_row(node);
    if (is<ops::Reshape>(node))
      return replace(node, {all_.reshaped(node, rewriter_.map(node.inputs[0]))}, kept(node.inputs[0]));
    if (is<ops::IndexAdd>(node)) return emit_index_add(node);
    for (const ValueId input : node.inputs)
      if (kept(input) == Kept::kRows) refuse(node);
    std::vector<Value> operands;
    for (const ValueId input : node.inputs) operands.push_back(rows(input));
    const std::vector<Value> results = emit_node(*node.op, node.attributes, operands);
    if (is<ops::Embedding, ops::IndexSelect>(node)) return replace(node, results, Kept::kZeroRows);
    if (!is<ops::Matmul>(node)) refuse(node);
    replace(node, {summed(results[0])}, Kept::kOwn);
  }

  void emit_by_row(const Node& node) {
    std::vector<Value> operands;
    size_t zeros = 0;
    for (const ValueId input : node.inputs) {
      const Value biases = own_biases(input);
      zeros += biases || kept(input) == Kept::kZeroRows;
      operands.push_back(biases ? biases : rows(input));
    }
    const bool are_zeros = is<ops::Mul, ops::Cast>(node)  ? zeros > 0
                           : is<ops::Add, ops::Sub>(node) ? zeros == node.inputs.size()
                                                          : false;
    replace(node, emit_node(*node.op, node.attributes, operands), are_zeros ? Kept::kZeroRows : Kept::kRows);
  }

  // Adds rows to tokens, whose sums over the ranks each rank gets for its own tokens, or to biases.
  void emit_index_add(const Node& node) {
    auto op = from_attributes<ops::IndexAdd>(node.attributes);
    const TensorType& type = graph_.type(node.outputs[0]);
    const bool is_of_biases = indices_of_biases_.contains(node.inputs[1]);
    if (op.axis != 0 || uniform_value(graph_, node.inputs[0]) != 0.0) refuse(node);
    if (!is_of_biases && kept(node.inputs[2]) != Kept::kZeroRows) refuse(node);
    Shape shape = type.shape;
    const int64_t size = shape[0].value();
    shape[0] = Dim(is_of_biases ? size / shard_.ranks : size * sharing_);
    if (is_of_biases) op.part = range_of(size);
    const Value zeros = full(rewriter_.graph(), shape, 0, type.dtype);
    const Value sums = emit(op, {zeros, rows(node.inputs[1]), rows(node.inputs[2])});
    if (!is_of_biases) return replace(node, {summed(sums)}, Kept::kOwn);
    replace(node, {of_mean(all_gather(sums, kExpertShardAxis, shard_.ranks))}, Kept::kOwn);
  }

  // Sums over the ranks what each computed of all tokens with its experts, and returns the sums of this rank's tokens.
  Value summed(Value of_own_experts) {
    if (sharing_ == 1) return all_reduce(of_own_experts, kExpertShardAxis);
    const Value sums = reduce_scatter(of_own_experts, kExpertAxis, sharing_);
    return tensor_ranks_ > 1 ? all_reduce(sums, kTensorAxis) : sums;
  }

  // Gradients of experts are sums over the ranks that share a batch, where gradients of other weights are means.
  Value of_mean(Value sum) const { return sharing_ == 1 ? sum : sum * (1.0 / static_cast<double>(sharing_)); }

  // --- weights of experts, their gradients and moments

  Value whole(ValueId id) {
    if (has_rows(id))
      fail("'{}' has the rows of one rank's experts, and all are wanted", graph_.value(id).name);
    const Value value = rewriter_.map(id);
    return has_experts(id) ? all_gather(value, kExpertShardAxis, shard_.ranks) : value;
  }

  void emit_experts(const Node& node) {
    if (is<ops::SumSquares>(node)) return emit_sum_squares(node);
    if (const auto average = match<ops::AllReduce>(node); average && average->axis == kDataAxis)
      return emit_average(average);
    for (const Factor& factor : factors_of(graph_, node))
      if (is_of_experts(node, factor)) return emit_shard(node, factor);
    std::vector<Value> operands;
    for (const ValueId input : node.inputs) operands.push_back(whole(input));
    replace(node, emit_node(*node.op, node.attributes, operands), Kept::kOwn);
  }

  // Returns true if all shards are operands in this factor, and its results are shards along the first dimension.
  bool is_of_experts(const Node& node, const Factor& factor) {
    if (!factor.once.empty()) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (has_experts(node.inputs[i]) && !has_member(factor, false, i, 0)) return false;
    return std::ranges::none_of(factor.members, [](const FactorMember& m) { return m.dim != 0; });
  }

  void emit_shard(const Node& node, const Factor& factor) {
    std::vector<Value> operands = rewriter_.map(node.inputs);
    for (const FactorMember& member : factor.members)
      if (!member.is_result) operands[member.index] = own_experts(node.inputs[member.index]);
    std::vector<Value> results =
        emit_node(*node.op, attributes_of_shard(graph_, node, factor, shard_), operands);
    for (const size_t sum : factor.sums) results[sum] = all_reduce(results[sum], kExpertShardAxis);
    replace(node, results, Kept::kOwn);
    for (const FactorMember& member : factor.members)
      if (member.is_result) kept(node.outputs[member.index]) = Kept::kExperts;
  }

  // Sums the squares of all values: those of shards over the ranks.
  void emit_sum_squares(const Node& node) {
    std::vector<Value> own, shards;
    for (const ValueId input : node.inputs)
      (has_experts(input) ? shards : own).push_back(rewriter_.map(input));
    Value sum = all_reduce(emit_node(*node.op, node.attributes, shards)[0], kExpertShardAxis);
    if (!own.empty()) sum = sum + emit_node(*node.op, node.attributes, own)[0];
    replace(node, {sum}, Kept::kOwn);
  }

  // Averages gradients of experts over the ranks that have the same experts, the others over all that share the batch.
  void emit_average(const Matched<ops::AllReduce>& average) {
    const Node& node = *average.node;
    std::vector<Value> own, shards;
    for (const ValueId input : node.inputs)
      (has_experts(input) ? shards : own).push_back(rewriter_.map(input));
    shards = all_reduce(shards, kReplicaAxis, average->reduction);
    if (!own.empty()) own = all_reduce(own, kDataAxis, average->reduction);
    std::vector<Value> results;
    size_t next_own = 0, next_shard = 0;
    for (const ValueId input : node.inputs) {
      if (!has_experts(input))
        results.push_back(own[next_own++]);
      else if (average->reduction == RankReduction::kMean)
        results.push_back(of_mean(shards[next_shard++]));
      else
        results.push_back(shards[next_shard++]);
    }
    rewriter_.replace(node, results);
    for (size_t i = 0; i < results.size(); ++i) kept(node.outputs[i]) = kept(node.inputs[i]);
  }

  const Graph& graph_;
  const FactorShard shard_;
  const int64_t tensor_ranks_,
      sharing_;  // ranks along "tensor"; ranks along "expert" that share the batch, or 1
  const Target target_;
  Rewriter rewriter_;
  GlobalRows all_;
  std::vector<Kept> kept_;               // by value
  std::map<int32_t, int32_t> shards_;    // by state of experts: the state that holds this rank's shard
  std::map<ValueId, Value> offsets_;     // by offsets of all experts
  std::set<ValueId> indices_of_biases_;  // experts of pairs, by which their biases are looked up
};

}  // namespace

Graph partition_experts(const Graph& graph, const PassContext& context) {
  if (context.mesh.size(kExpertAxis) == 1 || !context.storage) return graph.share();
  return ExpertPartitioner(graph, context).run();
}

}  // namespace genesis::passes
