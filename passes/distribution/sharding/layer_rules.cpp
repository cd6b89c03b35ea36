#include <numeric>

#include "passes/core/update_inputs.h"
#include "passes/distribution/sharding/rules.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::passes {
namespace {

std::vector<size_t> first_numbers(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// Operands: x [..., in], weight [out, in], bias [out] or none, addend [..., out] or none. If `in` is sharded, every rank
// computes a partial product; these are summed over the ranks, and bias and addend are added once. A layer with an activation
// is not sharded along `in`, because the activation needs the whole sum.
void list_linear(RuleContext& context) {
  const auto op = context.op<ops::Linear>();
  if (!op.is_unquantized_product()) return;
  const size_t count = context.num_operands();
  const int last = context.result(0).rank() - 1;
  std::vector<size_t> rows = {0};
  if (op.has_addend) rows.push_back(count - 1);
  context.add_leading(last, rows, std::array{size_t{0}});
  Factor out{{operand_dim(1, 0), result_dim(0, last)}}, in{{operand_dim(0, last), operand_dim(1, 1)}, {0}};
  if (op.has_bias(count)) out.members.push_back(operand_dim(2, 0));
  if (op.has_addend) out.members.push_back(operand_dim(count - 1, last));
  for (size_t i = 2; i < count; ++i) in.once.push_back(i);
  context.add(std::move(out));
  if (op.activation == Activation::kNone) context.add(std::move(in));
}

Attributes linear_of_shard(const RuleShard& shard) {
  auto op = shard.op<ops::Linear>();
  if (!shard.factor.once.empty()) op.has_addend = false;
  return to_attributes(op);
}

// Operands: a [..., m, k], b [..., k, n], addend [..., m, n] or none. The leading dimensions are broadcast.
void list_matmul(RuleContext& context) {
  const auto op = context.op<ops::Matmul>();
  if (!op.is_plain()) return;
  const Shape &a = context.operand(0), &b = context.operand(1), &y = context.result(0);
  const int rank = y.rank();
  for (int dim = 0; dim < rank - 2; ++dim) {
    Factor factor{{result_dim(0, dim)}};
    for (size_t i = 0; i < context.num_operands(); ++i) {
      const int at = dim - (rank - context.operand(i).rank());
      if (at >= 0 && context.operand(i)[at] == y[dim]) factor.members.push_back(operand_dim(i, at));
    }
    context.add(std::move(factor));
  }
  const int m = a.rank() - (op.transpose_a ? 1 : 2), a_k = a.rank() - (op.transpose_a ? 2 : 1);
  const int n = b.rank() - (op.transpose_b ? 2 : 1), b_k = b.rank() - (op.transpose_b ? 1 : 2);
  Factor of_m{{operand_dim(0, m), result_dim(0, rank - 2)}},
      of_n{{operand_dim(1, n), result_dim(0, rank - 1)}},
      of_k{{operand_dim(0, a_k), operand_dim(1, b_k)}, {0}};
  if (context.num_operands() > 2) {
    of_m.members.push_back(operand_dim(2, rank - 2));
    of_n.members.push_back(operand_dim(2, rank - 1));
    of_k.once = {2};
  }
  for (Factor* factor : {&of_m, &of_n, &of_k}) context.add(std::move(*factor));
}

// Operands: x [..., k], weights [groups, n, k] or [groups, k, n], offsets. Every rank has all rows and all groups.
void list_grouped_matmul(RuleContext& context) {
  const auto op = context.op<ops::GroupedMatmul>();
  if (op.is_quantized()) return;
  const int last = context.result(0).rank() - 1, n = op.transpose_weights ? 1 : 2;
  context.add({{operand_dim(1, n), result_dim(0, last)}});
  context.add({{operand_dim(0, last), operand_dim(1, 3 - n)}, {0}});
}

// Operands: a [..., n], b [..., k], offsets; result [groups, n, k].
void list_grouped_matmul_grad(RuleContext& context) {
  const int last = context.operand(0).rank() - 1;
  context.add({{operand_dim(0, last), result_dim(0, 1)}});
  context.add({{operand_dim(1, last), result_dim(0, 2)}});
}

// Lists the two factors of attention: heads, and rows of the batch. A rank with some heads has these heads of the queries, the
// results and their statistics, and the corresponding key heads of keys and values. If one tensor holds all heads, a rank has
// some heads of each kind.
class AttentionHeads {
 public:
  AttentionHeads(RuleContext& context, const ops::AttentionRules& rules)
      : context_(context), rules_(rules), dim_(rules.layout == AttentionLayout::kBTHD ? 2 : 1) {
    const int64_t heads = rules.packed() ? context.operand(0)[2].value() : 0, keys = rules.packed_key_heads;
    if (rules.packed()) cuts_ = {heads - 2 * keys, heads - keys};
  }

  // Adds q, k and v, or the one tensor that holds them; as results they are the gradients.
  void add_qkv(bool is_result) {
    if (rules_.packed()) return add(is_result, 0, dim_, 1, cuts_);
    for (size_t i = 0; i < 3; ++i) add(is_result, i, dim_, i == 0 ? 0 : 1);
  }
  void add_like_query(bool is_result, size_t index) { add(is_result, index, dim_, 0); }
  void add_statistics(bool is_result, size_t index) { add(is_result, index, 1, 0); }
  // Adds the optional operands from number `index` on: a mask, where keys start, key lengths.
  void add_optional(size_t index) {
    if (rules_.has_mask) add_mask(index++);
    if (rules_.has_key_start) rows_.members.push_back(operand_dim(index++, 0));
    if (rules_.has_key_length && context_.operand(index).rank() == 1)
      rows_.members.push_back(operand_dim(index, 0));
  }
  void list() {
    context_.add(std::move(heads_));
    context_.add(std::move(rows_));
  }

 private:
  void add(bool is_result, size_t index, int heads, int numbering, std::vector<int64_t> cuts = {}) {
    heads_.members.push_back({is_result, index, heads, numbering, std::move(cuts)});
    rows_.members.push_back({is_result, index, 0});
  }
  void add_mask(size_t index) {
    const Shape& mask = context_.operand(index);
    const int heads = mask.rank() - 3, row = mask.rank() - 4;
    if (heads >= 0 && !(mask[heads] == Dim(1))) heads_.members.push_back(operand_dim(index, heads));
    if (row >= 0 && !(mask[row] == Dim(1))) rows_.members.push_back(operand_dim(index, row));
  }

  RuleContext& context_;
  const ops::AttentionRules& rules_;
  const int dim_;
  std::vector<int64_t> cuts_;
  Factor heads_, rows_;
};

void list_attention(RuleContext& context) {
  const auto op = context.op<ops::Attention>();
  AttentionHeads heads(context, op);
  heads.add_qkv(false);
  heads.add_optional(static_cast<size_t>(op.operands()));
  heads.add_like_query(true, 0);
  if (op.with_lse) heads.add_statistics(true, 1);
  heads.list();
}

void list_attention_grad(RuleContext& context) {
  const auto op = context.op<ops::AttentionGrad>();
  const auto y = static_cast<size_t>(op.operands());
  AttentionHeads heads(context, op);
  heads.add_qkv(false);
  heads.add_like_query(false, y);
  heads.add_statistics(false, y + 1);
  heads.add_like_query(false, y + 2);
  heads.add_optional(y + 3);
  heads.add_qkv(true);
  heads.list();
}

template <class Op>
Attributes attention_of_shard(const RuleShard& shard) {
  auto op = shard.op<Op>();
  if (shard.is_sharded(0, op.layout == AttentionLayout::kBTHD ? 2 : 1)) op.packed_key_heads /= shard.ranks;
  return to_attributes(op);
}

// Operands: x [batch, time, heads, size], whose first `heads` heads are rotated; positions; frequencies or none.
void list_rope(RuleContext& context) {
  const auto op = context.op<ops::Rope>();
  Factor rows{{operand_dim(0, 0), result_dim(0, 0)}}, times{{operand_dim(0, 1), result_dim(0, 1)}};
  const int positions = context.operand(1).rank();
  times.members.push_back(operand_dim(1, positions - 1));
  if (positions == 2) rows.members.push_back(operand_dim(1, 0));
  if (context.num_operands() > 2 && context.operand(2).rank() == 2) rows.members.push_back(operand_dim(2, 0));
  context.add(std::move(rows));
  context.add(std::move(times));
  std::vector<int64_t> cuts;
  if (op.heads > 0 && op.heads < context.operand(0)[2].value()) cuts = {op.heads};
  context.add({{operand_dim(0, 2, 0, cuts), result_dim(0, 2, 0, cuts)}});
}

Attributes rope_of_shard(const RuleShard& shard) {
  auto op = shard.op<ops::Rope>();
  if (shard.is_sharded(0, 2)) op.heads /= shard.ranks;
  return to_attributes(op);
}

// Operands: gate and up, or one tensor with both side by side (`is_packed`); for the gradient also dy. The first `like_packed`
// results have both side by side as well; the others have the shape of gate.
void list_swiglu_like(RuleContext& context, bool is_packed, size_t like_packed) {
  const int last = context.operand(0).rank() - 1;
  context.add_leading(last, first_numbers(context.num_operands()), first_numbers(context.num_results()));
  const Dim& size = context.operand(0)[last];
  if (is_packed && !size.is_constant()) return;
  const std::vector<int64_t> cuts = is_packed ? std::vector{size.value() / 2} : std::vector<int64_t>{};
  Factor factor;
  for (size_t i = 0; i < context.num_operands(); ++i)
    factor.members.push_back(is_packed && i == 0 ? operand_dim(i, last, 1, cuts) : operand_dim(i, last));
  for (size_t i = 0; i < context.num_results(); ++i)
    factor.members.push_back(is_packed && i < like_packed ? result_dim(i, last, 1, cuts)
                                                          : result_dim(i, last));
  context.add(std::move(factor));
}

void list_swiglu(RuleContext& context) { list_swiglu_like(context, context.num_operands() == 1, 0); }
void list_swiglu_grad(RuleContext& context) { list_swiglu_like(context, context.num_operands() == 2, 1); }

// The last `num_axes` dimensions are normalized and not sharded. All dimensions before them are rows, which can be sharded.
// Weights have the normalized dimensions only, so their gradients are sums over the rows.
template <class Op>
void list_norm(RuleContext& context) {
  const int rank = context.operand(0).rank(), rows = rank - static_cast<int>(context.op<Op>().num_axes);
  std::vector<size_t> operands, results, sums;
  for (size_t i = 0; i < context.num_operands(); ++i)
    if (context.operand(i).rank() == rank && rows > 0) operands.push_back(i);
  for (size_t i = 0; i < context.num_results(); ++i)
    (context.result(i).rank() == rank ? results : sums).push_back(i);
  context.add_leading(rows, operands, results, sums);
}

// Shards the classes if targets are class numbers: each rank has the logits of some classes. vocabulary.h tells what the ranks
// then exchange.
template <class Op>
void list_cross_entropy(RuleContext& context, size_t num_operands, bool is_gradient) {
  const bool has_weight = context.num_operands() > num_operands;
  if (has_weight || is_float(context.operand_dtype(1)) || context.op<Op>().part.is_part()) return;
  const int classes = context.operand(0).rank() - 1;
  Factor factor{{operand_dim(0, classes)}};
  if (is_gradient)
    factor.members.push_back(result_dim(0, classes));
  else
    factor.sums = {0};
  context.add(std::move(factor));
}

void list_loss(RuleContext& context) { list_cross_entropy<ops::CrossEntropy>(context, 2, false); }
void list_loss_grad(RuleContext& context) { list_cross_entropy<ops::CrossEntropyGrad>(context, 4, true); }

template <class Op>
Attributes cross_entropy_of_shard(const RuleShard& shard) {
  auto op = shard.op<Op>();
  const Shape& logits = shard.graph.type(shard.node.inputs[0]).shape;
  op.part = shard.range_of(logits[logits.rank() - 1]);
  return to_attributes(op);
}

// Shards the classes, which are the rows of the weight.
void list_linear_cross_entropy(RuleContext& context) {
  const size_t results = context.num_results();
  Factor factor{{operand_dim(1, 0)}, {0}};
  if (results > 1) factor.sums.push_back(1);
  if (results > 2) factor.members.push_back(result_dim(2, 0));
  context.add(std::move(factor));
}

// Parameter, gradient and moments are updated elementwise, so every dimension can be sharded. Scales of moments that are codes may
// have fewer dimensions, of which the last counts blocks; the parameter's dimensions after that one stay whole.
void list_update(RuleContext& context) {
  UpdateInputs inputs = update_inputs(context.node());
  if (is<ops::SgdUpdate>(context.node())) inputs.gradient = 1;  // also without momentum
  if (inputs.gradient == inputs.parameter) return;
  const size_t last = inputs.moments.empty() ? inputs.parameter : inputs.moments.back();
  const int dims = std::min(context.operand(inputs.parameter).rank(), context.operand(last).rank());
  for (int dim = 0; dim < dims; ++dim) {
    Factor factor{{operand_dim(inputs.parameter, dim), operand_dim(inputs.gradient, dim)}};
    for (const size_t moment : inputs.moments) factor.members.push_back(operand_dim(moment, dim));
    for (size_t i = 0; i < context.num_results(); ++i) factor.members.push_back(result_dim(i, dim));
    context.add(std::move(factor));
  }
}

void list_sum_squares(RuleContext& context) {
  for (size_t i = 0; i < context.num_operands(); ++i)
    for (int dim = 0; dim < context.operand(i).rank(); ++dim) context.add({{operand_dim(i, dim)}, {0}});
}

constexpr ShardingRule kRules[] = {
    {ops::Linear::info.name, list_linear, linear_of_shard},
    {ops::Matmul::info.name, list_matmul},
    {ops::GroupedMatmul::info.name, list_grouped_matmul},
    {ops::GroupedMatmulGrad::info.name, list_grouped_matmul_grad},
    {ops::Attention::info.name, list_attention, attention_of_shard<ops::Attention>},
    {ops::AttentionGrad::info.name, list_attention_grad, attention_of_shard<ops::AttentionGrad>},
    {ops::Rope::info.name, list_rope, rope_of_shard},
    {ops::Swiglu::info.name, list_swiglu},
    {ops::SwigluGrad::info.name, list_swiglu_grad},
    {ops::LayerNorm::info.name, list_norm<ops::LayerNorm>},
    {ops::LayerNormGrad::info.name, list_norm<ops::LayerNormGrad>},
    {ops::RmsNorm::info.name, list_norm<ops::RmsNorm>},
    {ops::RmsNormGrad::info.name, list_norm<ops::RmsNormGrad>},
    {ops::CrossEntropy::info.name, list_loss, cross_entropy_of_shard<ops::CrossEntropy>},
    {ops::CrossEntropyGrad::info.name, list_loss_grad, cross_entropy_of_shard<ops::CrossEntropyGrad>},
    {ops::LinearCrossEntropy::info.name, list_linear_cross_entropy},
    {ops::AdamUpdate::info.name, list_update},
    {ops::LionUpdate::info.name, list_update},
    {ops::SgdUpdate::info.name, list_update},
    {ops::SumSquares::info.name, list_sum_squares},
};

}  // namespace

std::span<const ShardingRule> layer_rules() { return kRules; }

}  // namespace genesis::passes
