#include <algorithm>

#include "passes/distribution/sharding/rules.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// Returns `shape` with the dimensions that results have in this factor divided by `ranks`.
Shape shape_of_shard(Shape shape, const Factor& factor, int64_t ranks) {
  for (const FactorMember& member : factor.members)
    if (member.is_result) shape[member.dim] = Dim(shape[member.dim].value() / ranks);
  return shape;
}

template <class Op>
Attributes with_shape_of_shard(const RuleShard& shard) {
  auto op = shard.op<Op>();
  op.shape = shape_of_shard(op.shape, shard.factor, shard.ranks);
  return to_attributes(op);
}

bool is_one(const Dim& dim) { return dim == Dim(1); }

// Matches dimensions before and after the reshape from the last to the first, in groups with equal numbers of elements. The
// first dimensions of both groups form a factor: a shard of one is a shard of the other, as for heads and heads times head
// size.
void list_reshape(RuleContext& context) {
  const Shape &from = context.operand(0), &to = context.result(0);
  int i = from.rank() - 1, o = to.rank() - 1;
  while (i >= 0 && o >= 0) {
    if (is_one(from[i]) && !is_one(to[o])) {
      --i;
    } else if (is_one(to[o]) && !is_one(from[i])) {
      --o;
    } else if (from[i] == to[o]) {
      context.add({{operand_dim(0, i--), result_dim(0, o--)}});
    } else {
      if (!from[i].is_constant() || !to[o].is_constant()) return;
      int64_t elements = from[i].value(), of_result = to[o].value();
      while (elements != of_result) {
        const bool is_smaller = elements < of_result;
        const Dim* next = is_smaller ? (i > 0 ? &from[--i] : nullptr) : (o > 0 ? &to[--o] : nullptr);
        if (!next || !next->is_constant()) return;
        (is_smaller ? elements : of_result) *= next->value();
      }
      context.add({{operand_dim(0, i--), result_dim(0, o--)}});
    }
  }
}

void list_permute(RuleContext& context) {
  const auto op = context.op<ops::Permute>();
  for (size_t d = 0; d < op.axes.size(); ++d)
    context.add({{operand_dim(0, static_cast<int>(op.axes[d])), result_dim(0, static_cast<int>(d))}});
}

// Expanded dimensions can be sharded: every rank has the element that is repeated.
void list_expand(RuleContext& context) {
  const Shape &from = context.operand(0), &to = context.result(0);
  for (int dim = 0; dim < to.rank(); ++dim) {
    Factor factor{{result_dim(0, dim)}};
    const int at = dim - (to.rank() - from.rank());
    if (at >= 0 && from[at] == to[dim]) factor.members.push_back(operand_dim(0, at));
    context.add(std::move(factor));
  }
}

void list_full(RuleContext& context) {
  for (int dim = 0; dim < context.result(0).rank(); ++dim) context.add({{result_dim(0, dim)}});
}

void list_other_dims(RuleContext& context, int64_t axis) {
  for (int dim = 0; dim < context.result(0).rank(); ++dim) {
    if (dim == axis) continue;
    Factor factor;
    for (size_t i = 0; i < context.num_operands(); ++i) factor.members.push_back(operand_dim(i, dim));
    for (size_t i = 0; i < context.num_results(); ++i) factor.members.push_back(result_dim(i, dim));
    context.add(std::move(factor));
  }
}

// Returns the places that lie inside (0, size).
std::vector<int64_t> inner_cuts(std::initializer_list<int64_t> places, int64_t size) {
  std::vector<int64_t> cuts;
  for (const int64_t place : places)
    if (place > 0 && place < size) cuts.push_back(place);
  return cuts;
}

void list_slice(RuleContext& context) {
  const auto op = context.op<ops::Slice>();
  list_other_dims(context, op.axis);
  const int axis = static_cast<int>(op.axis);
  const Dim& size = context.operand(0)[axis];
  if (op.step != 1 || !size.is_constant() || !op.start.is_constant() || !op.length.is_constant()) return;
  const int64_t start = op.start[0].value(), length = op.length[0].value();
  const auto cuts = inner_cuts({start, start + length}, size.value());
  FactorMember whole = operand_dim(0, axis, 0, cuts);
  whole.taken = {start, start + length};
  context.add({{whole, result_dim(0, axis, cuts.empty() ? 0 : 1)}});
}

Attributes slice_of_shard(const RuleShard& shard) {
  auto op = shard.op<ops::Slice>();
  if (!has_member(shard.factor, true, 0, static_cast<int>(op.axis))) return shard.node.attributes;
  op.start[0] = Dim(op.start[0].value() / shard.ranks);
  op.length[0] = Dim(op.length[0].value() / shard.ranks);
  return to_attributes(op);
}

void list_concat(RuleContext& context) {
  const auto op = context.op<ops::Concat>();
  list_other_dims(context, op.axis);
  const int axis = static_cast<int>(op.axis);
  if (!context.result(0)[axis].is_constant()) return;
  Factor factor;
  std::vector<int64_t> cuts;
  for (size_t i = 0; i < context.num_operands(); ++i) {
    factor.members.push_back(operand_dim(i, axis, static_cast<int>(i) + 1));
    const int64_t before = cuts.empty() ? 0 : cuts.back();
    cuts.push_back(before + context.operand(i)[axis].value());
  }
  cuts.pop_back();
  factor.members.push_back(result_dim(0, axis, 0, cuts));
  context.add(std::move(factor));
}

// Lists the dimensions that are not padded.
void list_pad(RuleContext& context) {
  const auto op = context.op<ops::Pad>();
  for (size_t d = 0; d < op.before.size(); ++d)
    if (op.before[d] == 0 && op.after[d] == 0)
      context.add({{operand_dim(0, static_cast<int>(d)), result_dim(0, static_cast<int>(d))}});
}

void list_dynamic_slice(RuleContext& context) {
  const auto op = context.op<ops::DynamicSlice>();
  for (int dim = 0; dim < context.result(0).rank(); ++dim)
    if (dim != op.axis) context.add({{operand_dim(0, dim), result_dim(0, dim)}});
}

void list_update_slice(RuleContext& context) {
  const auto op = context.op<ops::DynamicUpdateSlice>();
  for (int dim = 0; dim < context.result(0).rank(); ++dim) {
    if (dim == op.axis) continue;
    Factor factor{{operand_dim(0, dim), operand_dim(1, dim), result_dim(0, dim)}};
    for (size_t i = 2; i < context.num_operands(); ++i)  // starts and lengths by row
      if (dim == 0 && context.operand(i).rank() == 1) factor.members.push_back(operand_dim(i, 0));
    context.add(std::move(factor));
  }
}

// Lists the dimensions that remain; a dimension that is summed can be sharded if the ranks' results are summed.
void list_sum(RuleContext& context) {
  const auto op = context.op<ops::Sum>();
  int at = 0;
  for (int dim = 0; dim < context.operand(0).rank(); ++dim) {
    const bool goes = std::find(op.axes.begin(), op.axes.end(), dim) != op.axes.end();
    if (goes)
      context.add({{operand_dim(0, dim)}, {0}});
    else
      context.add({{operand_dim(0, dim), result_dim(0, at)}});
    at += !goes || op.keep_dims;
  }
}

// If the rows of a table are sharded, every rank looks up its own rows and gives zeros for the others.
void list_embedding(RuleContext& context) {
  const int last = context.result(0).rank() - 1;
  context.add_leading(last, std::array{size_t{0}}, std::array{size_t{0}});
  if (!context.op<ops::Embedding>().part.is_part()) context.add({{operand_dim(1, 0)}, {0}});
  context.add({{operand_dim(1, 1), result_dim(0, last)}});
}

Attributes embedding_of_shard(const RuleShard& shard) {
  auto op = shard.op<ops::Embedding>();
  if (shard.is_sharded(1, 0)) op.part = shard.range_of(shard.graph.type(shard.node.inputs[1]).shape[0]);
  return to_attributes(op);
}

void list_embedding_grad(RuleContext& context) {
  const int last = context.operand(1).rank() - 1;
  context.add_leading(last, std::array{size_t{0}, size_t{1}}, {}, std::array{size_t{0}});
  if (!context.op<ops::EmbeddingGrad>().part.is_part()) context.add({{result_dim(0, 0)}});
  context.add({{operand_dim(1, last), result_dim(0, 1)}});
}

Attributes embedding_grad_of_shard(const RuleShard& shard) {
  auto op = shard.op<ops::EmbeddingGrad>();
  if (!has_member(shard.factor, true, 0, 0)) return shard.node.attributes;
  op.part = shard.range_of(op.rows[0]);
  op.rows[0] = Dim(op.rows[0].value() / shard.ranks);
  return to_attributes(op);
}

// Operands: x, index. All but the axis may be sharded, and so below, where the operands are x, index and source.
void list_index_select(RuleContext& context) {
  for (int dim = 0; dim < context.result(0).rank(); ++dim)
    if (dim != context.op<ops::IndexSelect>().axis) context.add({{operand_dim(0, dim), result_dim(0, dim)}});
}

void list_index_add(RuleContext& context) {
  for (int dim = 0; dim < context.result(0).rank(); ++dim)
    if (dim != context.op<ops::IndexAdd>().axis)
      context.add({{operand_dim(0, dim), operand_dim(2, dim), result_dim(0, dim)}});
}

// Each tensor is reduced by itself.
void list_all_reduce(RuleContext& context) {
  for (size_t i = 0; i < context.num_operands(); ++i)
    for (int dim = 0; dim < context.operand(i).rank(); ++dim)
      context.add({{operand_dim(i, dim), result_dim(i, dim)}});
}

constexpr ShardingRule kRules[] = {
    {ops::Reshape::info.name, list_reshape, with_shape_of_shard<ops::Reshape>},
    {ops::Permute::info.name, list_permute},
    {ops::Expand::info.name, list_expand, with_shape_of_shard<ops::Expand>},
    {ops::Full::info.name, list_full, with_shape_of_shard<ops::Full>},
    {ops::Slice::info.name, list_slice, slice_of_shard},
    {ops::Concat::info.name, list_concat},
    {ops::Pad::info.name, list_pad},
    {ops::DynamicSlice::info.name, list_dynamic_slice},
    {ops::DynamicUpdateSlice::info.name, list_update_slice},
    {ops::Sum::info.name, list_sum},
    {ops::IndexSelect::info.name, list_index_select},
    {ops::IndexAdd::info.name, list_index_add},
    {ops::Embedding::info.name, list_embedding, embedding_of_shard},
    {ops::EmbeddingGrad::info.name, list_embedding_grad, embedding_grad_of_shard},
    {ops::AllReduce::info.name, list_all_reduce},
};

}  // namespace

std::span<const ShardingRule> movement_rules() { return kRules; }

}  // namespace genesis::passes
